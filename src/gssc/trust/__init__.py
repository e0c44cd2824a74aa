"""Trust in edges and labels: probabilities that they are right, from evidence without the judged edge or label."""
