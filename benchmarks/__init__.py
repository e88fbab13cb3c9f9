"""Benchmarks: heedful and its peers side by side, in one run on one machine."""
