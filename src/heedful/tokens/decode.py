"""Tokens -> text that reads well. Not the text they came from: that is what offsets are for."""

from collections.abc import Sequence

from heedful.tokens.wordpiece import PREFIX

_CLOSE_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What loses its spaces."""


def join(tokens: Sequence[str]) -> str:
    """Join tokens by spaces, word pieces to their words, most punctuation to what it follows."""
    text = []
    for place, token in enumerate(tokens):
        if place:
            token = token.removeprefix(PREFIX) if token.startswith(PREFIX) else f" {token}"
        # Token by token, as the reference does, so that only a token's own start is closed up.
        text.append(_close_up(token))
    return "".join(text)


def tidy(text: str) -> str:
    """Close up the spaces of English punctuation and contractions over a whole text."""
    return _close_up(text)


def _close_up(text: str) -> str:
    for spaced in _CLOSE_UP:
        text = text.replace(spaced, spaced.strip())
    return text
