"""Text to ids with exact character offsets."""
