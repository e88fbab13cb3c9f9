"""Text -> the text that is cut: the steps of a normalizer, one after the other.

What most characters become depends on nothing beside them. For these, all steps together are one
table from code points to strings, filled as characters are met. A text with any other goes through
the steps one by one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Protocol

from heedful.tokens.alignment import in_normal_form, placed, with_rules
from heedful.tokens.characters import WHITE_SPACE, lower
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.clusters import ACCENTS, EXTENDING, JOINED, decomposed
from heedful.tokens.normalize import Images, Sourced, replaced

WHITE = "".join(map(chr, WHITE_SPACE))

_JAMO = range(0x1160, 0x1200)
"""Vowels and ends of Korean syllables, which join the letter before them."""
_find_spaces = re.compile("  +").finditer
TOGETHER = "\ud800"
"""Takes the place, in the table, of a character that has to be looked at with those beside it. It
is half of a surrogate pair, which no text has that has gone through the steps."""


class Step(Protocol):
    """One step of a normalizer."""

    def is_local(self, character: str) -> bool:
        """Tell whether what becomes of a character depends on nothing beside it."""

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """Return what becomes of a text.

        Args:
            text: the text.
            sources: for each of its characters, the index of the one that it came from.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Replace:
    """Puts one text in the place of another."""

    old: str
    new: str

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character not in self.old

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`. What is put in comes from the last character of what was there."""
        parts = text.split(self.old)
        new_sources = sources[: len(parts[0])]
        start = len(parts[0])
        for part in parts[1:]:
            start += len(self.old)
            new_sources += [sources[start - 1]] * len(self.new)
            new_sources += sources[start : start + len(part)]
            start += len(part)
        return self.new.join(parts), new_sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """Puts a text in the place of each character, whatever is beside it."""

    name: str
    """What ``tokenizer.json`` calls it."""
    image: Callable[[str], str] = field(repr=False)

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return True

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        return replaced(map(self.image, text), sources)


def _without_accents(character: str) -> str:
    return "" if ord(character) in ACCENTS else character


def _bare(character: str) -> str:
    return "".join(map(_without_accents, decomposed(character, compatible=True)))


_NMT_REMOVED = frozenset([*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F])
_NMT_SPACES = frozenset(
    [9, 0xA, 0xC, 0xD, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD]
)


def _tidied(character: str) -> str:
    if ord(character) in _NMT_REMOVED:
        return ""
    return " " if ord(character) in _NMT_SPACES else character


LOWERCASE = Mapping(name="Lowercase", image=lower)
STRIP_ACCENTS = Mapping(name="StripAccents", image=_without_accents)
NMT = Mapping(name="Nmt", image=_tidied)
BARE = Mapping(name="NFKD, StripAccents", image=_bare)
"""NFKD, then `STRIP_ACCENTS`. Canonical order moves nothing but what is stripped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalForm:
    """Brings a text into a normal form of Unicode (Annex 15)."""

    compatible: bool
    """Whether characters become others that look different (NFKC, NFKD)."""
    composed: bool
    """Whether marks join what they stand on (NFC, NFKC)."""

    @property
    def name(self) -> str:
        """What ``tokenizer.json`` calls it."""
        return f"NF{'K' if self.compatible else ''}{'C' if self.composed else 'D'}"

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        parts = decomposed(character, compatible=self.compatible)
        if self.composed:
            parts = parts[0] + self.apply(character, [0])[0]
        return not any(ord(part) in EXTENDING or ord(part) in _JAMO for part in parts)

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        changes = in_normal_form(text, compatible=self.compatible, composed=self.composed)
        return placed(changes, sources)


@dataclass(frozen=True, slots=True)
class Precompiled:
    """Applies the rules of a SentencePiece file, as the compiled reference does; see there."""

    charsmap: Charsmap

    def is_local(self, character: str) -> bool:
        """See `Step`. What is dropped changes the source of what is before it; see `placed`."""
        return ord(character) not in JOINED and self.charsmap.image(character) != ""

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        changes, dropped = with_rules(text, self.charsmap.image)
        return placed(changes, sources[dropped:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """Takes away white space at the ends."""

    left: bool
    right: bool

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character not in WHITE

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        end = len(text.rstrip(WHITE)) if self.right else len(text)
        start = end - len(text[:end].lstrip(WHITE)) if self.left else 0
        return text[start:end], sources[start:end]


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinSpaces:
    """Puts one character in the place of two or more spaces."""

    new: str

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character != " "

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`. What is put in comes from the last of the spaces."""
        if "  " not in text:
            return text, sources
        parts: list[str] = []
        new_sources: list[int] = []
        start = 0
        for match in _find_spaces(text):
            parts += [text[start : match.start()], self.new]
            new_sources += [*sources[start : match.start()], sources[match.end() - 1]]
            start = match.end()
        return "".join([*parts, text[start:]]), new_sources + sources[start:]


class Rewriting:
    """Several steps.

    Args:
        steps: the steps, in their order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._table = Images(self._image)

    def image(self, character: str) -> str:
        """Return what becomes of a character; nothing where that depends on those beside it."""
        image = self._table[ord(character)] if character else ""
        return "" if image == TOGETHER else image

    def text(self, text: str) -> str:
        """Return what becomes of a text."""
        rewritten = text.translate(self._table)
        return rewritten if TOGETHER not in rewritten else self.sourced(text)[0]

    def sourced(self, text: str) -> Sourced:
        """Return what becomes of a text, and the index of the source of each character."""
        sources = list(range(len(text)))
        images = list(map(self._table.__getitem__, map(ord, text)))
        if TOGETHER not in images:
            rewritten = "".join(images)
            return rewritten, list(chain.from_iterable(map(repeat, sources, map(len, images))))
        # Half of a surrogate pair, which the reference cannot be given, is dropped.
        sources = [index for index in sources if not "\ud800" <= text[index] < "\ue000"]
        rewritten = "".join(map(text.__getitem__, sources))
        for step in self.steps:
            rewritten, sources = step.apply(rewritten, sources)
        return rewritten, sources

    def _image(self, character: str) -> str:
        if "\ud800" <= character < "\ue000":
            return ""
        text = character
        for step in self.steps:
            if not all(map(step.is_local, text)):
                return TOGETHER
            text, _ = step.apply(text, [0] * len(text))
        return text
