"""Self-supervised baselines: one file per pretext task, and one loop that pre-trains an encoder and fine-tunes it."""
