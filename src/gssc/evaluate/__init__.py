"""Comparisons of models: sweeps over a results store, statistics over seeds, and the search for settings."""
