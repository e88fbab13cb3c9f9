"""Names of ERNIE's weights in checkpoints: as in the model, with or without a prefix."""

PREFIX = "ernie"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""
