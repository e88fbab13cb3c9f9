"""Names of BigBird's weights in checkpoints."""

PREFIX = "bert"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {"pooler.dense": "pooler"}
"""Module names in a file, where they differ from the model's."""
