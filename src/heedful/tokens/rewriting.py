"""Text -> the text that SentencePiece cuts: the steps of a normalizer, one after the other.

What most characters become depends on nothing beside them. For these, all steps together are one
table from code points to strings, filled as characters are met. A text with any other goes through
the steps one by one, which also tell where in the text each character came from.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

from heedful.tokens.characters import lower
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.clusters import ACCENTS, JOINED, clusters, compatibility_decomposition
from heedful.tokens.normalize import MAX_TABLE, Sourced, replaced

_find_spaces = re.compile("  +").finditer
_TOGETHER = "\ud800"
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
        new_sources: list[int] = []
        start = 0
        for number, part in enumerate(parts):
            if number:
                start += len(self.old)
                new_sources += [sources[start - 1]] * len(self.new)
            new_sources += sources[start : start + len(part)]
            start += len(part)
        return self.new.join(parts), new_sources


@dataclass(frozen=True, kw_only=True, slots=True)
class StripAccents:
    """Decomposes (NFKD) and drops all marks."""

    def is_local(self, character: str) -> bool:
        """See `Step`. Canonical order moves nothing but marks."""
        return True

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        return replaced(map(self._image, text), sources)

    def _image(self, character: str) -> str:
        parts = compatibility_decomposition(character)
        return "".join(part for part in parts if ord(part) not in ACCENTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowercase:
    """Puts each character in lower case."""

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return True

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`."""
        return replaced(map(lower, text), sources)


@dataclass(frozen=True, slots=True)
class Precompiled:
    """Applies the rules of a SentencePiece file, as the compiled reference does.

    Those look for the longest text that has a rule. The reference looks for a rule for each
    character with the marks on it, if they have fewer than six bytes, and else for each by itself.
    """

    charsmap: Charsmap

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return ord(character) not in JOINED

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`.

        If a rule makes as many characters as it takes, each comes from its own. Of more, the rest
        comes from the last one taken.
        """
        new: list[str] = []
        new_sources: list[int] = []
        start = 0
        for old, image in self._images(text):
            new.append(image)
            taken = sources[start : start + min(len(image), len(old))]
            new_sources += taken
            if len(image) > len(old):
                new_sources += [taken[-1]] * (len(image) - len(old))
            start += len(old)
        return "".join(new), new_sources

    def _images(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each character or cluster of a text with what takes its place."""
        for cluster in clusters(text):
            if len(cluster) > 1 and len(cluster.encode("utf-8", "ignore")) < 6:
                image = self.charsmap.image(cluster)
                if image is not None:
                    yield cluster, image
                    continue
            for character in cluster:
                image = self.charsmap.image(character)
                yield character, character if image is None else image


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinSpaces:
    """Puts one character in the place of two or more spaces."""

    new: str

    def is_local(self, character: str) -> bool:
        """See `Step`."""
        return character != " "

    def apply(self, text: str, sources: list[int]) -> Sourced:
        """See `Step`. What is put in comes from the last of the spaces."""
        parts: list[str] = []
        new_sources: list[int] = []
        start = 0
        for match in _find_spaces(text):
            parts += [text[start : match.start()], self.new]
            new_sources += [*sources[start : match.start()], sources[match.end() - 1]]
            start = match.end()
        return "".join([*parts, text[start:]]), new_sources + sources[start:]


class Rewriting:
    """All steps of a normalizer.

    Args:
        steps: the steps, in their order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._table = _Table(self.steps)

    def text(self, text: str) -> str:
        """Return what becomes of a text."""
        rewritten = text.translate(self._table)
        return rewritten if _TOGETHER not in rewritten else self.sourced(text)[0]

    def sourced(self, text: str) -> Sourced:
        """Return what becomes of a text, and the index of the source of each character."""
        sources = list(range(len(text)))
        images = [self._table[ord(character)] for character in text]
        if _TOGETHER not in images:
            rewritten = "".join(images)
            return rewritten, list(chain.from_iterable(map(repeat, sources, map(len, images))))
        kept = [index for index in sources if not "\ud800" <= text[index] < "\ue000"]
        rewritten, sources = "".join(map(text.__getitem__, kept)), kept
        for step in self.steps:
            rewritten, sources = step.apply(rewritten, sources)
        return rewritten, sources


class _Table(dict[int, str]):
    """Code point -> what takes its place, as ``str.translate`` wants it, filled when asked."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = tuple(steps)

    def __missing__(self, code: int) -> str:
        image = self._image(chr(code))
        if len(self) < MAX_TABLE:
            self[code] = image
        return image

    def _image(self, character: str) -> str:
        if "\ud800" <= character < "\ue000":
            return ""  # the reference cannot be given half of a pair
        text = character
        for step in self._steps:
            if not all(map(step.is_local, text)):
                return _TOGETHER
            text, _ = step.apply(text, [0] * len(text))
        return text
