"""What the peers do with a text, as a careful user would write it.

Nothing of heedful is imported here: it is not in the peers' environment.
"""
