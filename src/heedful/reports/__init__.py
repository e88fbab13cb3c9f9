"""What a run is worth: reports of one, and comparisons of two."""

PACKAGE = __name__
"""Where the templates lie."""
