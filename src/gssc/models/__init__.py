"""How labels are learned: one model a file."""
