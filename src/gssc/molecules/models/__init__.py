"""Graph-level models, one file per model."""
