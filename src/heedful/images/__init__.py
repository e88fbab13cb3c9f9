"""Convert pictures to pixels. Errors name the file."""
