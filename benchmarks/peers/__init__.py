"""The peers' programs, written as a careful user would write them.

They import nothing from heedful, because the peers' environment does not have it.
"""
