"""Predictions for files of any size and number: streamed, in parallel, resumable after a kill."""
