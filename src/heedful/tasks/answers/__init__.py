"""What tasks answer with, where that is more than a few fields."""
