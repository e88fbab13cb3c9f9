"""Tokens that are matched whole, before a text is split into words: special and other added ones.

The rules are those of ``tokenizers``: of several that begin at one place the longest is taken; a
token may ask for the white space around it, or for no word right beside it; and those that are
marked as normalized are looked for in what the others leave.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from heedful.tokens.characters import IN_WORDS, LETTERS, WHITE_SPACE
from heedful.tokens.vocabulary import Vocabulary

_STRIPPED = "".join(map(chr, WHITE_SPACE))


class Part(NamedTuple):
    """A part of a text."""

    start: int
    stop: int
    token: str | None
    """The added token that it is; None for text between such."""


class AddedTokens:
    """Finds added tokens in texts.

    Args:
        vocabulary: the tokens, with the special and the other added ones.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._special = special = vocabulary.special
        self.ids = vocabulary.added_ids()
        """Each of them and its id."""
        passes = (self.ids.keys() - special.normalized, self.ids.keys() & special.normalized)
        self._patterns = [_pattern(tokens) for tokens in passes if tokens]
        self._starts = {token[0] for token in self.ids}
        self.take_neighbours = bool(special.single_word)
        """Whether what stands beside a token decides if it is one."""
        self.take_spaces = bool(special.lstrip or special.rstrip)
        """Whether the white space beside a token may be part of it."""

    def are_in(self, text: str) -> bool:
        """Tell whether there may be such tokens in a text."""
        # Looking for a character is much faster than looking for a token.
        return any(start in text for start in self._starts) and any(
            pattern.search(text) for pattern in self._patterns
        )

    def split(self, text: str) -> list[Part]:
        """Cut a text at such tokens. White space that a token takes is part of it."""
        parts = [Part(0, len(text), None)]
        for pattern in self._patterns:
            parts = [
                piece
                for part in parts
                for piece in ([part] if part.token else self._split(text, part, pattern))
            ]
        return parts

    def _split(self, text: str, part: Part, pattern: re.Pattern[str]) -> Iterator[Part]:
        """Cut a part of a text, of which nothing around it is seen."""
        special, done = self._special, part.start
        for match in pattern.finditer(text, part.start, part.stop):
            (start, stop), token = match.span(), match.group()
            if token in special.single_word and (
                (start > part.start and _is_word(text[start - 1]))
                or (stop < part.stop and _is_word(text[stop]))
            ):
                continue
            if token in special.lstrip:
                start = done + len(text[done:start].rstrip(_STRIPPED))
            if token in special.rstrip:
                stop = part.stop - len(text[stop : part.stop].lstrip(_STRIPPED))
            if done < start:
                yield Part(done, start, None)
            yield Part(start, stop, token)
            done = stop
        if done < part.stop or part.start == part.stop:
            yield Part(done, part.stop, None)


def bare(text: str, part: Part) -> Part:
    """Return a token's part of a text without the white space that it took."""
    taken = text[part.start : part.stop]
    start = part.start + len(taken) - len(taken.lstrip(_STRIPPED))
    return Part(start, start + len(taken.strip(_STRIPPED)), part.token)


def _pattern(tokens: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))


def _is_word(character: str) -> bool:
    return ord(character) in LETTERS or ord(character) in IN_WORDS
