"""Pictures to pixels. Errors name the file."""
