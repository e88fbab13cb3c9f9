"""Layers composed into models, and the reference's folders read and written."""
