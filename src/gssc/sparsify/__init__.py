"""Which edges to trust: one sparsifier a file."""
