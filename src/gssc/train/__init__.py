"""Training: feature rows, edge batches, losses, and the loop that is Algorithm 1."""
