"""Self-supervised rivals: one file per pretext task, one shared loop that pre-trains an encoder and fine-tunes it."""
