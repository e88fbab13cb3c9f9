"""Convert images to pixels. Errors name the file."""
