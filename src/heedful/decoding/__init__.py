"""Scores to sequences and spans."""
