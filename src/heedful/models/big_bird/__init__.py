"""BigBird (Zaheer et al. 2020)."""
