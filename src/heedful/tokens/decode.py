"""Token ids that users pass, and the spaces of English text that was joined from tokens."""

from collections.abc import Iterable
from operator import index
from typing import Any

from heedful.errors import MAX_NAME_LENGTH, UserError, shorten

_CLOSE_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""Strings that lose their spaces."""


def clean_up_spaces(text: str) -> str:
    """Remove the spaces before punctuation and contractions."""
    for spaced in _CLOSE_UP:
        text = text.replace(spaced, spaced.strip())
    return text


def as_ints(ids: Iterable[Any]) -> list[int]:
    """Convert token ids in any iterable, such as a tensor or an array, to Python ints.

    Raises:
        UserError: an element is not an integer.
    """
    try:
        return [index(token_id) for token_id in ids]
    except TypeError:
        shown = shorten(repr(ids), MAX_NAME_LENGTH)
        raise UserError(
            f"token ids {shown}: expected whole numbers; batch_decode takes lists of them"
        ) from None
