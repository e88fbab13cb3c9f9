"""Evaluation reports of a run, and comparisons of two runs."""

PACKAGE = __name__
"""The package that holds the templates."""
