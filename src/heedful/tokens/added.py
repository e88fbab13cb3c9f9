"""Tokens that are matched whole, before a text is split into words: special and other added ones.

The rules are those of ``tokenizers``: of several that begin at one place the longest is taken; a
token may ask for the white space around it, or for no word right beside it; and those that are
marked as normalized are looked for in what the others leave.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
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


class _Pass(NamedTuple):
    """What is looked for at once."""

    pattern: re.Pattern[str]
    tokens: Mapping[str, str]
    """The text that is looked for, and the token that it is of."""


class AddedTokens:
    """Finds added tokens in texts.

    Args:
        vocabulary: the tokens, with the special and the other added ones.
        rewrite: what becomes of a text before those are looked for that are marked as normalized;
            for their own texts, too.
    """

    def __init__(
        self, vocabulary: Vocabulary, rewrite: Callable[[str], str] = lambda text: text
    ) -> None:
        self._special = special = vocabulary.special
        self.ids = vocabulary.added_ids()
        """Each of them and its id."""
        early = {token: token for token in self.ids if token not in special.normalized}
        late = {rewrite(token): token for token in self.ids if token in special.normalized}
        late.pop("", None)
        self._passes = [_Pass(_pattern(tokens), tokens) for tokens in (early, late)]
        self._find_start = _starts((*early, *late)).search
        takers = special.lstrip | special.rstrip | special.single_word
        self.letters = {token for token in early if len(token) == 1 and token not in takers}
        """Those of one character that are tokens whatever is beside them."""
        self._find_other = _pattern({*early, *late} - self.letters).search
        self.take_neighbours = bool(special.single_word)
        """Whether what stands beside a token decides if it is one."""
        self.take_spaces = bool(special.lstrip or special.rstrip)
        """Whether the white space beside a token may be part of it."""

    def are_in(self, text: str) -> bool:
        """Tell whether there may be such tokens in a text."""
        # Looking for a character is much faster than looking for a token.
        return self._find_start(text) is not None and any(
            one.pattern.search(text) for one in self._passes
        )

    def others_are_in(self, text: str) -> bool:
        """Tell whether there may be such tokens in a text besides `letters`."""
        return self._find_other(text) is not None

    def split(self, text: str) -> list[Part]:
        """Cut a text at such tokens. White space that a token takes is part of it."""
        return [
            piece
            for part in self.split_early(text)
            for piece in ([part] if part.token else self._split(text, part, self._passes[1]))
        ]

    def split_early(self, text: str) -> list[Part]:
        """Cut a text at those that are not marked as normalized."""
        return [*self._split(text, Part(0, len(text), None), self._passes[0])]

    def split_late(self, rewritten: str) -> list[Part]:
        """Cut a text that has been rewritten at those that are marked as normalized."""
        return [*self._split(rewritten, Part(0, len(rewritten), None), self._passes[1])]

    def _split(self, text: str, part: Part, one: "_Pass") -> Iterator[Part]:
        """Cut a part of a text, of which nothing around it is seen."""
        special, done = self._special, part.start
        for match in one.pattern.finditer(text, part.start, part.stop):
            (start, stop), token = match.span(), one.tokens[match.group()]
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
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"(?={_starts(tokens).pattern})(?:{'|'.join(map(re.escape, longest_first))})")


def _starts(tokens: Collection[str]) -> re.Pattern[str]:
    """Return what matches the first character of any token; nothing where there are none."""
    starts = "".join(re.escape(start) for start in sorted({token[0] for token in tokens}))
    return re.compile(f"[{starts}]" if starts else "(?!)")


def _is_word(character: str) -> bool:
    return ord(character) in LETTERS or ord(character) in IN_WORDS
