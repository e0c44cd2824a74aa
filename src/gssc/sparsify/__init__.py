"""Sparsifiers, which decide the edges to train on: one sparsifier per file."""
