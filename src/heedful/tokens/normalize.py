"""Text -> words: clean-up, ideographs, accents, case, punctuation.

Every step looks at one character (canonical order, the one exception, is `_in_canonical_order`),
so all of them together are one table from code points to strings, which is filled as characters
are met. Words can then be had fast (`str.translate`) or with the place in the text that each of
their characters came from (the same table, character by character).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, repeat

from heedful.errors import UserError
from heedful.tokens.characters import (
    IDEOGRAPHS,
    MARKS,
    MOVABLE,
    PUNCTUATION,
    REMOVED,
    SPACES,
    combining_class,
    decomposition,
    lower,
)

MAX_TABLE = 20_000
"""Characters that a table remembers; a text may hold all 1.1 million."""

_ASCII_WORDS = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z ]").findall
_FIND_MOVABLE = re.compile(f"[{''.join(map(chr, MOVABLE))}]").search

Sourced = tuple[str, list[int]]
"""A text, or word, and for each of its characters the index of the one that it came from."""


class Images(dict[int, str]):
    """Code point -> what takes its place, as ``str.translate`` wants it, filled when asked.

    Args:
        image: computes what takes the place of a character.
    """

    def __init__(self, image: Callable[[str], str]) -> None:
        self._image = image

    def __missing__(self, code: int) -> str:
        image = self._image(chr(code))
        if len(self) < MAX_TABLE:
            self[code] = image
        return image


class Normalizer:
    """Splits text into the words that WordPiece sees.

    Args:
        lower_case: whether words are put in lower case.
        strip_accents: whether text is decomposed and nonspacing marks are dropped.
        split_ideographs: whether each ideograph is a word by itself.
        never_split: words that are taken as they are where they stand between spaces.

    Raises:
        UserError: a word that is never to be split has spaces in it.
    """

    def __init__(
        self,
        *,
        lower_case: bool,
        strip_accents: bool,
        split_ideographs: bool,
        never_split: Collection[str],
    ) -> None:
        self._lower_case = lower_case
        self.strip_accents = strip_accents
        self.split_ideographs = split_ideographs
        if isinstance(never_split, str) or not all(map(_is_word, never_split)):
            raise UserError(f"never_split {never_split!r}: must be words, without spaces in them")
        self.never_split = frozenset(never_split)
        self._clean = Images(self._cleaned)
        self._fold = Images(self._folded)

    def _cleaned(self, character: str) -> str:
        code = ord(character)
        if code in SPACES:
            return " "
        if code in REMOVED:
            return ""
        if self.split_ideographs and code in IDEOGRAPHS:
            return f" {character} "
        return character

    def _folded(self, character: str) -> str:
        return "".join(
            folded for cleaned in self._cleaned(character) for folded in self._bare(cleaned)
        )

    def _bare(self, character: str) -> str:
        """Decompose, strip, lower and set apart a character that clean-up has let through."""
        parts: Iterable[str] = character
        if self.strip_accents:
            parts = (part for part in decomposition(character) if ord(part) not in MARKS)
        if self._lower_case:
            parts = (small for part in parts for small in lower(part))
        return "".join(f" {part} " if ord(part) in PUNCTUATION else part for part in parts)

    def image(self, character: str) -> str:
        """Return what takes the place of a character, with spaces around it if it is a word.

        With accents stripped, what a movable character becomes depends on its neighbours, too.
        """
        return self._fold[ord(character)]

    def words(self, text: str) -> list[str]:
        """Return the normalised words of a text, punctuation marks among them."""
        if not self.never_split:
            return self._fold_words(text)
        return [
            word
            for run in text.translate(self._clean).split()
            for word in ([run] if run in self.never_split else self._fold_words(run))
        ]

    def _fold_words(self, text: str) -> list[str]:
        if text.isascii() and text.isprintable():  # so no control is in it, nor a space but U+0020
            return _ASCII_WORDS(text.lower() if self._lower_case else text)
        if self.strip_accents and _FIND_MOVABLE(text):
            return [word for word, _ in self.sourced_words(text)]
        return text.translate(self._fold).split()

    def sourced_words(self, text: str) -> Iterator[Sourced]:
        """Yield the words of a text, and for each of their characters the index of its source."""
        sources = list(range(len(text)))
        if not self.never_split:
            yield from _split(*self._fold_sourced(text, sources))
            return
        for run, places in _split(*replaced(map(self._clean.__getitem__, map(ord, text)), sources)):
            if run in self.never_split:
                yield run, places
            else:
                yield from _split(*self._fold_sourced(run, places))

    def _fold_sourced(self, text: str, sources: list[int]) -> Sourced:
        if self.strip_accents and _FIND_MOVABLE(text):
            text, sources = replaced(map(self._clean.__getitem__, map(ord, text)), sources)
            text, sources = replaced(map(decomposition, text), sources)
            text, sources = _in_canonical_order(text, sources)
        return replaced(map(self._fold.__getitem__, map(ord, text)), sources)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) == 1


def replaced(images: Iterable[str], sources: list[int]) -> Sourced:
    """Put together what takes the place of each character of a text."""
    images = list(images)
    text = "".join(images)
    return text, list(chain.from_iterable(map(repeat, sources, map(len, images))))


def _split(text: str, sources: list[int]) -> Iterator[Sourced]:
    """Split a text at its spaces."""
    start = 0
    for run in text.split(" "):
        if run:
            yield run, sources[start : start + len(run)]
        start += len(run) + 1


def _in_canonical_order(text: str, sources: list[int]) -> Sourced:
    """Sort each run of characters of a combining class above 0 by that class, keeping ties.

    ``unicodedata.normalize`` takes time quadratic in the length of a run, and knows marks that
    Unicode 9 did not.
    """
    ranks = list(map(combining_class, text))
    order: list[int] = []
    run: list[int] = []
    for index, rank in enumerate(ranks):
        if rank:
            run.append(index)
        else:
            order += sorted(run, key=ranks.__getitem__)
            order.append(index)
            run.clear()
    order += sorted(run, key=ranks.__getitem__)
    return "".join([text[index] for index in order]), [sources[index] for index in order]
