"""The loop as a generator of steps, and what it needs."""
