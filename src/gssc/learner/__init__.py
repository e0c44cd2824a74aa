"""GSSC's default learner: teachers form opinions about every node, and a plain MLP learns from the best of them."""
