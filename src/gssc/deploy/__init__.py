"""The trained MLP alone: load, predict, score tables. Imports no graph code, and no torch."""
