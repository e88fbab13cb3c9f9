"""Tidying English text that was joined from tokens."""

_CLOSE_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What loses its spaces."""


def tidy(text: str) -> str:
    """Close up the spaces before punctuation and contractions."""
    for spaced in _CLOSE_UP:
        text = text.replace(spaced, spaced.strip())
    return text
