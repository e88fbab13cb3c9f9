"""Models compiled for fast inference on this machine, once when they are loaded."""
