"""Models as the machine computes them fastest, made once when they are loaded for answers."""
