"""Shared style and generation of heedful's HTML pages."""
