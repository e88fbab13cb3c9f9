"""Thin streaming metrics; a metrics library does the counting."""
