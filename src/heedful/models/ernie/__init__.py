"""ERNIE (Sun et al. 2019; of Baidu)."""
