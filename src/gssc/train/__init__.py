"""Training: edge batches, losses, and the loops, Algorithm 1 among them."""
