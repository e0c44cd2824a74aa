"""Models that learn labels: one model per file."""
