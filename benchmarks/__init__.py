"""Benchmarks that compare heedful with its peers, in one run on one machine."""
