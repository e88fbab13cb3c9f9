"""What ERNIE's weights are called in folders: as in the model, with or without a prefix."""

PREFIX = "ernie"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""
