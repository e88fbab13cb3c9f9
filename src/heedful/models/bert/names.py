"""Names of BERT's weights in checkpoint folders: as in the model, with or without a prefix."""

PREFIX = "bert"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""
