"""Text normalization: the steps of a normalizer, applied in order.

Most characters are normalized independently of their neighbours. For these, one lazily filled table
from code points to strings covers all steps. A text with any other character goes through the steps
one by one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Protocol

from heedful.tokens.alignment import apply_changes, apply_rules, to_normal_form
from heedful.tokens.characters import WHITE_SPACE, lower
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.clusters import ACCENTS, EXTENDING, IN_CLUSTERS, decompose
from heedful.tokens.normalize import ReplacementTable, Sourced, join_replacements

WHITE = "".join(map(chr, WHITE_SPACE))

_JAMO = range(0x1160, 0x1200)
"""Hangul vowels and final consonants, which combine with the letter before them."""
_find_spaces = re.compile("  +").finditer
NEEDS_CONTEXT = "\ud800"
"""Marks, in the table, a character whose result depends on its neighbours. It is a lone surrogate,
which no normalized text contains."""


class Step(Protocol):
    """One step of a normalizer."""

    def is_local(self, character: str) -> bool:
        """Return whether the step maps a character independently of its neighbours."""

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """Apply the step to a text.

        Args:
            text: the text.
            sources: the source index of each character.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Replace:
    """Replaces one string with another."""

    old: str
    new: str

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character not in self.old

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`. The source of a replacement is the last character it replaces."""
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
class CharacterMap:
    """Maps each character to a string, independently of its neighbours."""

    name: str
    """Its name in ``tokenizer.json``."""
    image: Callable[[str], str] = field(repr=False)

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return True

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        return join_replacements(map(self.image, text), sources)


def _without_accents(character: str) -> str:
    return "" if ord(character) in ACCENTS else character


def _bare(character: str) -> str:
    return "".join(map(_without_accents, decompose(character, compatible=True)))


_NMT_REMOVED = frozenset([*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F])
_NMT_SPACES = frozenset(
    [9, 0xA, 0xC, 0xD, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD]
)


def _tidied(character: str) -> str:
    if ord(character) in _NMT_REMOVED:
        return ""
    return " " if ord(character) in _NMT_SPACES else character


LOWERCASE = CharacterMap(name="Lowercase", image=lower)
STRIP_ACCENTS = CharacterMap(name="StripAccents", image=_without_accents)
NMT = CharacterMap(name="Nmt", image=_tidied)
DECOMPOSE_AND_STRIP = CharacterMap(name="NFKD, StripAccents", image=_bare)
"""NFKD, then `STRIP_ACCENTS`. Canonical ordering moves only characters that are stripped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalForm:
    """Converts a text to a Unicode normalization form (Annex 15)."""

    compatible: bool
    """Whether to apply compatibility mappings, which may change a character's look (NFKC, NFKD)."""
    composed: bool
    """Whether marks are composed with their base characters (NFC, NFKC)."""

    @property
    def name(self) -> str:
        """Its name in ``tokenizer.json``."""
        return f"NF{'K' if self.compatible else ''}{'C' if self.composed else 'D'}"

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        parts = decompose(character, compatible=self.compatible)
        if self.composed:
            parts = parts[0] + self.apply(character, [0])[0]
        return not any(ord(part) in EXTENDING or ord(part) in _JAMO for part in parts)

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        changes = to_normal_form(text, compatible=self.compatible, composed=self.composed)
        return apply_changes(changes, sources)


@dataclass(frozen=True, slots=True)
class Precompiled:
    """Applies the rules of a SentencePiece file like the compiled reference; see `Charsmap`."""

    charsmap: Charsmap

    def is_local(self, character: str) -> bool:
        """See `Step`. Dropping a character changes the source of the one before it."""
        return ord(character) not in IN_CLUSTERS and self.charsmap.image(character) != ""

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        changes, dropped = apply_rules(text, self.charsmap.image)
        return apply_changes(changes, sources[dropped:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """Strips white space at one or both ends."""

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
    """Replaces two or more consecutive spaces with one string."""

    new: str

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character != " "

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`. The source of a replacement is the last of the spaces."""
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
    """A sequence of normalization steps.

    Args:
        steps: the steps, in order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._table = ReplacementTable(self._image)

    def image(self, character: str) -> str:
        """Return the result for a character; empty if it depends on the neighbours."""
        image = self._table[ord(character)] if character else ""
        return "" if image == NEEDS_CONTEXT else image

    def text(self, text: str) -> str:
        """Return the normalized text."""
        rewritten = text.translate(self._table)
        return rewritten if NEEDS_CONTEXT not in rewritten else self.sourced(text)[0]

    def sourced(self, text: str) -> Sourced:
        """Return the normalized text, and the source index of each character."""
        sources = list(range(len(text)))
        images = list(map(self._table.__getitem__, map(ord, text)))
        if NEEDS_CONTEXT not in images:
            rewritten = "".join(images)
            return rewritten, list(chain.from_iterable(map(repeat, sources, map(len, images))))
        # Drop lone surrogates, which the reference cannot receive.
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
                return NEEDS_CONTEXT
            text, _ = step.apply(text, [0] * len(text))
        return text
