"""The answer types of the tasks that need more than a few fields."""
