"""One file per task, each with the same functions."""
