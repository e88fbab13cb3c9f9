"""The look that all HTML pages of heedful share, and how one is made."""
