"""Run folders and training checkpoints: atomic, verified, never a pickle."""
