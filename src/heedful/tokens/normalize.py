"""Text -> words: clean-up, ideographs, accents, case, punctuation.

Every step looks at one character (canonical order, the one exception, is `_in_canonical_order`),
so all of them together are one table from code points to strings, which is filled as characters
are met. Words can then be had fast (`str.translate`) or with the place in the text that each of
their characters came from (the same table, character by character).
"""

import re
from collections.abc import Callable, Collection, Iterable

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

_MAX_TABLE = 20_000  # characters remembered in a table; a text may hold all 1.1 million
_ASCII_WORDS = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z ]").findall
_FIND_MOVABLE = re.compile(f"[{''.join(map(chr, MOVABLE))}]").search

Sourced = tuple[str, int]
"""A character and the index of the character of the text that it came from."""


class _Table(dict[int, str]):
    """Code point -> what takes its place, as ``str.translate`` wants it, filled when asked."""

    def __init__(self, image: Callable[[str], str]) -> None:
        self._image = image

    def __missing__(self, code: int) -> str:
        image = self._image(chr(code))
        if len(self) < _MAX_TABLE:
            self[code] = image
        return image


class Normalizer:
    """Splits text into the words that WordPiece sees.

    Args:
        lower_case: whether words are put in lower case.
        strip_accents: whether text is decomposed and nonspacing marks are dropped.
        split_ideographs: whether each ideograph is a word by itself.
        never_split: words that are taken as they are where they stand between spaces.
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
        self._strip_accents = strip_accents
        self._split_ideographs = split_ideographs
        self._never_split = frozenset(never_split)
        self._clean = _Table(self._cleaned)
        self._fold = _Table(self._folded)

    def _cleaned(self, character: str) -> str:
        code = ord(character)
        if code in SPACES:
            return " "
        if code in REMOVED:
            return ""
        if self._split_ideographs and code in IDEOGRAPHS:
            return f" {character} "
        return character

    def _folded(self, character: str) -> str:
        return "".join(
            folded for cleaned in self._cleaned(character) for folded in self._bare(cleaned)
        )

    def _bare(self, character: str) -> str:
        """Decompose, strip, lower and set apart a character that clean-up has let through."""
        parts: Iterable[str] = character
        if self._strip_accents:
            parts = (part for part in decomposition(character) if ord(part) not in MARKS)
        if self._lower_case:
            parts = (small for part in parts for small in lower(part))
        return "".join(f" {part} " if ord(part) in PUNCTUATION else part for part in parts)

    def words(self, text: str) -> list[str]:
        """Return the normalised words of a text, punctuation marks among them."""
        if not self._never_split:
            return self._fold_words(text)
        return [
            word
            for run in text.translate(self._clean).split()
            for word in ([run] if run in self._never_split else self._fold_words(run))
        ]

    def _fold_words(self, text: str) -> list[str]:
        if text.isascii() and text.isprintable():  # so no control is in it, nor a space but U+0020
            return _ASCII_WORDS(text.lower() if self._lower_case else text)
        if self._strip_accents and _FIND_MOVABLE(text):
            return [word for word, _ in self.sourced_words(text)]
        return text.translate(self._fold).split()

    def sourced_words(self, text: str) -> list[tuple[str, list[int]]]:
        """Return the words of a text, and for each of their characters the index of its source."""
        characters = list(zip(text, range(len(text)), strict=True))
        if not self._never_split:
            return _joined(self._fold_sourced(characters))
        words = []
        for word, sources in _joined(_replaced(self._clean, characters)):
            if word in self._never_split:
                words.append((word, sources))
            else:
                run = list(zip(word, sources, strict=True))
                words += _joined(self._fold_sourced(run))
        return words

    def _fold_sourced(self, characters: list[Sourced]) -> list[Sourced]:
        if self._strip_accents and any(ord(char) in MOVABLE for char, _ in characters):
            cleaned = _replaced(self._clean, characters)
            parts = [(part, at) for char, at in cleaned for part in decomposition(char)]
            characters = _in_canonical_order(parts)
        return _replaced(self._fold, characters)


def _replaced(table: _Table, characters: list[Sourced]) -> list[Sourced]:
    return [(image, source) for char, source in characters for image in table[ord(char)]]


def _joined(characters: list[Sourced]) -> list[tuple[str, list[int]]]:
    """Join characters into words at the spaces between them."""
    words: list[tuple[str, list[int]]] = []
    start = 0
    text = "".join(char for char, _ in characters)
    for run in text.split(" "):
        if run:
            words.append((run, [at for _, at in characters[start : start + len(run)]]))
        start += len(run) + 1
    return words


def _in_canonical_order(characters: list[Sourced]) -> list[Sourced]:
    """Sort each run of characters of a combining class above 0 by that class, keeping ties.

    ``unicodedata.normalize`` takes time quadratic in the length of a run, and knows marks that
    Unicode 9 did not.
    """
    ordered: list[Sourced] = []
    run: list[tuple[int, Sourced]] = []
    for character in characters:
        rank = combining_class(character[0])
        if rank:
            run.append((rank, character))
            continue
        ordered += [moved for _, moved in sorted(run, key=lambda item: item[0])]
        ordered.append(character)
        run.clear()
    return ordered + [moved for _, moved in sorted(run, key=lambda item: item[0])]
