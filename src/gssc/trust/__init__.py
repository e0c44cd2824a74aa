"""How far to believe an edge or a label, from evidence that never includes the thing being judged."""
