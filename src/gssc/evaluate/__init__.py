"""How good a model is: metrics as pure functions."""
