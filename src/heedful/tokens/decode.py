"""Clean up the spaces of English text that was joined from tokens."""

_CLOSE_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""Strings that lose their spaces."""


def clean_up_spaces(text: str) -> str:
    """Remove the spaces before punctuation and contractions."""
    for spaced in _CLOSE_UP:
        text = text.replace(spaced, spaced.strip())
    return text
