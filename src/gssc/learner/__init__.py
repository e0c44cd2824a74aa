"""GSSC's default learner: teachers predict every node, and a plain MLP learns from the best of them."""
