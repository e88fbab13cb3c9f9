"""BERT's normalization and word splitting: clean-up, ideographs, accents, case, punctuation.

Every step except canonical ordering (`_in_canonical_order`) maps single characters. So one lazily
filled table from code points to strings covers all steps. A text is rewritten with it either fast
(`str.translate`), or character by character, which tracks the source index of each character.
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
"""Number of characters that a table caches; a text may hold all 1.1 million."""

_ASCII_WORDS = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z ]").findall
_FIND_MOVABLE = re.compile(f"[{''.join(map(chr, MOVABLE))}]").search

Sourced = tuple[str, list[int]]
"""A text or word, with the source index of each of its characters."""


class ReplacementTable(dict[int, str]):
    """A lazily filled table for ``str.translate``: code point -> replacement.

    Args:
        image: computes the replacement of a character.
    """

    def __init__(self, image: Callable[[str], str]) -> None:
        self._image = image

    def __missing__(self, code: int) -> str:
        image = self._image(chr(code))
        if len(self) < MAX_TABLE:
            self[code] = image
        return image


class Normalizer:
    """Normalises text and splits it into the words that WordPiece receives.

    Args:
        lower_case: whether to lowercase words.
        strip_accents: whether to decompose text and drop nonspacing marks.
        split_ideographs: whether each ideograph is a separate word.
        never_split: words that are kept unchanged when surrounded by spaces.

    Raises:
        UserError: a word of ``never_split`` contains white space.
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
        self._clean = ReplacementTable(self._cleaned)
        self._rewrite = ReplacementTable(self._rewritten)
        self._fold = ReplacementTable(self._folded)

    def _cleaned(self, character: str) -> str:
        code = ord(character)
        if code in SPACES:
            return " "
        if code in REMOVED:
            return ""
        if self.split_ideographs and code in IDEOGRAPHS:
            return f" {character} "
        return character

    def _rewritten(self, character: str) -> str:
        """Clean, decompose, strip and lowercase a character."""
        parts: Iterable[str] = self._cleaned(character)
        if self.strip_accents:
            decomposed = chain.from_iterable(map(decomposition, parts))
            parts = (part for part in decomposed if ord(part) not in MARKS)
        if self._lower_case:
            parts = (lowered for part in parts for lowered in lower(part))
        return "".join(parts)

    def _folded(self, character: str) -> str:
        return _with_punctuation_apart(self._rewritten(character))

    def image(self, character: str) -> str:
        """Return the replacement of a character, surrounded by spaces if it is a separate word.

        With ``strip_accents``, the result for a movable character also depends on its neighbours.
        """
        return self._fold[ord(character)]

    def letter(self, character: str) -> str:
        """Return the replacement of a character before punctuation is isolated."""
        return self._rewrite[ord(character)]

    def rewritten(self, text: str) -> str:
        """Return a text before it is split into words: its spaces and punctuation remain."""
        return self.sourced(text)[0]

    def sourced(self, text: str) -> Sourced:
        """Return a `rewritten` text, with the source index of each character."""
        return self._replaced(text, list(range(len(text))), self._rewrite)

    def words(self, text: str) -> list[str]:
        """Return the normalised words of a text, including punctuation marks."""
        if not self.never_split:
            return self._fold_words(text)
        return [
            word
            for run in text.translate(self._clean).split()
            for word in ([run] if run in self.never_split else self._fold_words(run))
        ]

    def _fold_words(self, text: str) -> list[str]:
        if text.isascii() and text.isprintable():  # no control character, no space but U+0020
            return _ASCII_WORDS(text.lower() if self._lower_case else text)
        if self.strip_accents and _FIND_MOVABLE(text):
            return [word for word, _ in self.sourced_words(text)]
        return text.translate(self._fold).split()

    def sourced_words(self, text: str) -> Iterator[Sourced]:
        """Yield the words of a text, with the source index of each character."""
        sources = list(range(len(text)))
        if not self.never_split:
            yield from _split(*self._replaced(text, sources, self._fold))
            return
        for run, run_sources in _split(
            *join_replacements(map(self._clean.__getitem__, map(ord, text)), sources)
        ):
            if run in self.never_split:
                yield run, run_sources
            else:
                yield from _split(*self._replaced(run, run_sources, self._fold))

    def _replaced(self, text: str, sources: list[int], table: ReplacementTable) -> Sourced:
        """Replace the characters of a text with those of a table, in canonical order."""
        if self.strip_accents and _FIND_MOVABLE(text):
            text, sources = join_replacements(map(self._clean.__getitem__, map(ord, text)), sources)
            text, sources = join_replacements(map(decomposition, text), sources)
            text, sources = _in_canonical_order(text, sources)
        return join_replacements(map(table.__getitem__, map(ord, text)), sources)


def words_of_rewritten(text: str, sources: list[int]) -> Iterator[Sourced]:
    """Yield the words of a text that was rewritten before; see `Normalizer.sourced`."""
    yield from _split(*join_replacements(map(_with_punctuation_apart, text), sources))


def _with_punctuation_apart(text: str) -> str:
    return "".join(f" {part} " if ord(part) in PUNCTUATION else part for part in text)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) == 1


def join_replacements(images: Iterable[str], sources: list[int]) -> Sourced:
    """Join the replacements of the characters of a text, with the source of each character."""
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
    """Stably sort each run of characters whose combining class is above 0 by that class.

    ``unicodedata.normalize`` takes time quadratic in the length of a run, and knows marks that
    Unicode 9 lacks.
    """
    classes = list(map(combining_class, text))
    order: list[int] = []
    run: list[int] = []
    for index, mark_class in enumerate(classes):
        if mark_class:
            run.append(index)
        else:
            order += sorted(run, key=classes.__getitem__)
            order.append(index)
            run.clear()
    order += sorted(run, key=classes.__getitem__)
    return "".join([text[index] for index in order]), [sources[index] for index in order]
