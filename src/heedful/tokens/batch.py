"""Normalize the text arguments of a tokenizer call to lists of single texts and pairs."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from heedful.errors import UserError

Words = str | Sequence[str]
"""A text as a string or as a list of words."""
Texts = Words | Sequence[Words] | Sequence[tuple[str, str]]
"""The text argument of a call: one or more texts, each a string, a list of words, or a pair."""


class Samples(NamedTuple):
    """The texts of a call."""

    firsts: Sequence[Words]
    seconds: Sequence[Words | None]
    """The second text of each pair; None for single texts."""
    many: bool
    """Whether the call received a list of texts."""


def samples_of(text: Texts, text_pair: Texts | None, *, words: bool) -> Samples:
    """Return the samples of a call.

    Args:
        text: one text or a list; with ``words``, one list of words or a list of these. Without
            ``text_pair``, a list may also contain pairs of texts.
        text_pair: the second texts, in the same form.
        words: whether texts are lists of words.

    Raises:
        UserError: a value is not text, or the numbers of first and second texts differ.
    """
    many = _is_list(text) and (not words or (len(text) > 0 and _is_list(text[0])))
    if not many:
        first = _checked("text", text, words)
        second = None if text_pair is None else _checked("text_pair", text_pair, words)
        return Samples(firsts=[first], seconds=[second], many=False)
    if text_pair is None:
        if not words and set(map(type, text)) == {str}:
            return Samples(
                firsts=cast("Sequence[str]", text), seconds=[None] * len(text), many=True
            )
        pairs = [_one("text", index, item, words) for index, item in enumerate(text)]
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        return Samples(firsts=firsts, seconds=seconds, many=True)
    if not _is_list(text_pair) or len(text_pair) != len(text):
        count = f"{len(text_pair)} texts" if _is_list(text_pair) else type(text_pair).__name__
        raise UserError(f"text_pair: {count} for a list of {len(text)} texts; give as many")
    return Samples(
        firsts=[_checked(f"text {index}", one, words) for index, one in enumerate(text)],
        seconds=[_checked(f"text_pair {index}", one, words) for index, one in enumerate(text_pair)],
        many=True,
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _one(name: str, index: int, item: Any, words: bool) -> tuple[Words, Words | None]:
    if not words and _is_list(item) and len(item) == 2:
        return _checked(f"{name} {index}", item[0], words), _checked(
            f"{name} {index}", item[1], words
        )
    return _checked(f"{name} {index}", item, words), None


def _checked(name: str, value: Any, words: bool) -> Words:
    """Check the type of a text or a list of words, and return it."""
    if not words:
        if isinstance(value, str):
            return value
        hint = "; for words give is_split_into_words=True" if _is_list(value) else ""
        raise UserError(f"{name} is {_kind(value)}: must be text{hint}")
    if not _is_list(value):
        raise UserError(f"{name} is {_kind(value)}: must be a list of words")
    for index, word in enumerate(value):
        if not isinstance(word, str):
            raise UserError(f"{name}, word {index} is {_kind(word)}: must be text")
    return list(value)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
