"""What BigBird's weights are called in folders."""

PREFIX = "bert"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {"pooler.dense": "pooler"}
"""Parts of a model that have another name in a file."""
