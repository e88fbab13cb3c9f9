"""Added tokens, special or not, which are matched whole before a text is split into words.

The rules follow ``tokenizers``. Of several matches at one position, the longest wins. A token may
absorb the white space around it, or match only as a whole word. Tokens that are marked as
normalized are matched last, in the text between the others. Of those with the same normalized text,
a special one wins, then the one with the lower id.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from heedful.tokens.characters import IN_WORDS, LETTERS, WHITE_SPACE
from heedful.tokens.vocabulary import Vocabulary

_STRIPPED = "".join(map(chr, WHITE_SPACE))
_find_spaces = re.compile(f"[{_STRIPPED}]*").match


class Part(NamedTuple):
    """A part of a text."""

    start: int
    stop: int
    token: str | None
    """The added token; None for text between added tokens."""


class _Pass(NamedTuple):
    """One pass of matching over a text."""

    pattern: re.Pattern[str]
    tokens: Mapping[str, str]
    """The text to match -> its token."""
    first_characters: Collection[str]


class AddedTokens:
    """Finds added tokens in texts.

    Args:
        vocabulary: the vocabulary, with special and other added tokens.
        rewrite: normalizes a text before matching tokens that are marked as normalized. It also
            applies to the texts of these tokens.
    """

    def __init__(
        self, vocabulary: Vocabulary, rewrite: Callable[[str], str] = lambda text: text
    ) -> None:
        self._special = special = vocabulary.special
        self.ids = vocabulary.added_ids()
        """Added token -> its id."""
        early = {token: token for token in self.ids if token not in special.normalized}
        order = sorted(self.ids, key=lambda token: (token in special.ordinary, self.ids[token]))
        late = {rewrite(token): token for token in reversed(order) if token in special.normalized}
        late.pop("", None)
        self.late = frozenset(late)
        """The normalized texts of the tokens that are marked as normalized."""
        self.late_first_characters = frozenset(text[0] for text in late)
        """The first characters of these texts."""
        self._passes = [
            _Pass(_pattern(tokens), tokens, {token[0] for token in tokens})
            for tokens in (early, late)
        ]
        self._find_start = _starts((*early, *late)).search
        context_sensitive = special.lstrip | special.rstrip | special.single_word
        self.letters = {
            token for token in early if len(token) == 1 and token not in context_sensitive
        }
        """Single-character tokens that match regardless of their neighbours."""
        self._find_other = _pattern({*early, *late} - self.letters).search
        self.need_whole_words = bool(special.single_word)
        """Whether any token matches only as a whole word."""
        self.take_spaces = bool(special.lstrip or special.rstrip)
        """Whether any token absorbs the white space beside it."""

    def may_contain(self, text: str) -> bool:
        """Return whether a text may contain added tokens."""
        # Searching for a first character is much faster than searching for a token.
        return self._find_start(text) is not None and any(
            one.pattern.search(text) for one in self._passes
        )

    def starts(self, text: str) -> list[int]:
        """Return where tokens that are not marked as normalized may start in a text."""
        return self._starts_of(text, self._passes[0])

    def late_starts(self, rewritten: str) -> list[int]:
        """Return where tokens that are marked as normalized may start in a rewritten text."""
        return self._starts_of(rewritten, self._passes[1])

    def _starts_of(self, text: str, matcher: "_Pass") -> list[int]:
        # Searching for a first character is much faster than searching for a token.
        if not any(character in text for character in matcher.first_characters):
            return []
        return [match.start() for match in matcher.pattern.finditer(text)]

    def may_contain_others(self, text: str) -> bool:
        """Return whether a text may contain added tokens other than `letters`."""
        return self._find_other(text) is not None

    def split(self, text: str) -> list[Part]:
        """Split a text at added tokens. A token's part includes the white space it absorbs."""
        return [
            piece
            for part in self.split_early(text)
            for piece in ([part] if part.token else self._split(text, part, self._passes[1]))
        ]

    def split_early(self, text: str) -> list[Part]:
        """Split a text at the added tokens that are not marked as normalized."""
        return [*self._split(text, Part(0, len(text), None), self._passes[0])]

    def split_late(self, rewritten: str) -> list[Part]:
        """Split a rewritten text at the added tokens that are marked as normalized."""
        return [*self._split(rewritten, Part(0, len(rewritten), None), self._passes[1])]

    def _split(self, text: str, part: Part, matcher: "_Pass") -> Iterator[Part]:
        """Split a part of a text, ignoring the text around it."""
        special, last_end = self._special, part.start
        for match in matcher.pattern.finditer(text, part.start, part.stop):
            (start, stop), token = match.span(), matcher.tokens[match.group()]
            if token in special.single_word and (
                (start > part.start and _is_word(text[start - 1]))
                or (stop < part.stop and _is_word(text[stop]))
            ):
                continue
            if token in special.lstrip:
                start = last_end + len(text[last_end:start].rstrip(_STRIPPED))
            if token in special.rstrip:
                # Stripping a slice would copy the rest of the text for each token.
                spaces = _find_spaces(text, stop, part.stop)
                assert spaces is not None
                stop = spaces.end()
            if last_end < start:
                yield Part(last_end, start, None)
            yield Part(start, stop, token)
            last_end = stop
        if last_end < part.stop or part.start == part.stop:
            yield Part(last_end, part.stop, None)


def without_white_space(text: str, part: Part) -> Part:
    """Return a token's part without the white space it absorbed."""
    matched = text[part.start : part.stop]
    start = part.start + len(matched) - len(matched.lstrip(_STRIPPED))
    return Part(start, start + len(matched.strip(_STRIPPED)), part.token)


def _pattern(tokens: Collection[str]) -> re.Pattern[str]:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"(?={_starts(tokens).pattern})(?:{'|'.join(map(re.escape, longest_first))})")


def _starts(tokens: Collection[str]) -> re.Pattern[str]:
    """Return a pattern for the first character of any token; without tokens it never matches."""
    starts = "".join(re.escape(start) for start in sorted({token[0] for token in tokens}))
    return re.compile(f"[{starts}]" if starts else "(?!)")


def _is_word(character: str) -> bool:
    return ord(character) in LETTERS or ord(character) in IN_WORDS
