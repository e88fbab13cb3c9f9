"""Text -> words as SentencePiece has them: ``▁`` in the place of a space begins a word.

The order is that of the compiled reference: added tokens are matched whole, what is between them is
rewritten (`rewriting.py`), then split before each ``▁``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from heedful.tokens.added import AddedTokens
from heedful.tokens.plain_splitting import UNDERLINE, PlainSplitter, Steps
from heedful.tokens.rewriting import (
    LOWERCASE,
    WHITE,
    JoinSpaces,
    Precompiled,
    Rewriting,
    Step,
    Strip,
)
from heedful.tokens.vocabulary import Vocabulary

Prefix = Literal["always", "first", "never"]

_BOTH_ENDS = Strip(left=True, right=True)

_find_words = re.compile(f"{UNDERLINE}?[^{UNDERLINE}]+|{UNDERLINE}").finditer
_find_runs = re.compile(f"[^{WHITE}]+").finditer
_join_spaces = JoinSpaces(new=" ").apply


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How a text is split into words."""

    steps: tuple[Step, ...]
    """What becomes of it before."""
    prefix: Prefix = "always"
    """Which parts between added tokens begin with ``▁`` even where they do not with a space."""
    at_white_space: bool = False
    """Whether white space goes, as in older files, instead of into the word behind it."""


class Item(NamedTuple):
    """A word, or an added token, of a text."""

    text: str
    sources: Sequence[int]
    """The index in the text that each character came from."""
    token_id: int | None = None
    """The id of an added token."""


class NotAloneError(Exception):
    """What becomes of a chunk depends on what is beside it."""


def _steps(steps: tuple[Step, ...]) -> Steps:
    """Take apart the steps of a text."""
    inside = [*steps]
    joins = bool(inside) and isinstance(inside[-1], JoinSpaces)
    if joins:
        inside.pop()
    strips = inside[-1:] == [Strip(left=False, right=True)]
    if strips:
        inside.pop()
    # DeBERTa's rules. Behind other steps white space would go from what these have made of a text.
    later = steps[1:] if steps[:1] == (LOWERCASE,) else steps
    trims = (
        later[:1] == (_BOTH_ENDS,)
        and all(isinstance(step, Precompiled) for step in later[1:-1])
        and later[-1] == JoinSpaces(new=" ")
    )
    if trims:
        inside.remove(_BOTH_ENDS)
    return Steps(inside=tuple(inside), joins=joins, strips=strips, trims=trims)


class Splitter:
    """Splits texts.

    Args:
        rules: how.
        vocabulary: the tokens. Added ones are matched whole.

    Attributes:
        added: the added tokens.
        plain: the short way for most chunks.
    """

    def __init__(self, rules: Rules, vocabulary: Vocabulary) -> None:
        self._rules = rules
        self._whole = Rewriting(rules.steps)
        self.added = AddedTokens(vocabulary, self._whole.text)
        self._late = bool(vocabulary.special.normalized & self.added.ids.keys())
        steps = _steps(rules.steps)
        self._joins, self._strips, self._trims = steps.joins, steps.strips, steps.trims
        self._in_chunk = Rewriting(steps.inside)
        self._has_chunks = (
            all(step.is_local(" ") for step in steps.inside)
            and (self._joins or not self._strips)
            and not vocabulary.special.rstrip
            and not vocabulary.special.single_word
            # Whether a word begins its text is not told where the white space before it is gone.
            and not (self._trims and rules.prefix == "first")
        )
        self.plain = PlainSplitter(
            steps,
            prefix=rules.prefix,
            at_white_space=rules.at_white_space,
            added=self.added,
            has_late=self._has_late,
        )

    def has_chunks(self, text: str) -> bool:
        """Tell whether a text may be cut at spaces, and what is between split by itself."""
        # White space that goes from the ends of each part is looked for in whole texts alone.
        return self._has_chunks and not (self._trims and self.added.are_in(text))

    def trimmed(self, text: str) -> tuple[int, str]:
        """Return a text that has chunks without white space at its ends if that goes.

        Returns:
            How many characters went from its start, and what is left.
        """
        if not self._trims:
            return 0, text
        right = text.rstrip(WHITE)
        left = right.lstrip(WHITE)
        return len(right) - len(left), left

    def items(self, text: str) -> Iterator[Item]:
        """Yield the words and added tokens of a text."""
        for start, stop, token in self.added.split_early(text):
            if token is not None:
                yield Item(token, range(start, stop), self.added.ids[token])
                continue
            rewritten, sources = self._whole.sourced(text[start:stop])
            sources = [start + source for source in sources]
            for first, last, late in self.added.split_late(rewritten):
                places = sources[first:last]
                if late is None:
                    yield from self._words(rewritten[first:last], places, at_start=True)
                else:
                    yield Item(late, places, self.added.ids[late])

    def chunk_items(self, before: str, chunk: str, *, closed: bool) -> Iterator[Item]:
        """Yield the words and added tokens of a chunk of a text.

        Args:
            before: what is before it, in the text: a space or nothing.
            chunk: the chunk.
            closed: whether it is the last of its text.

        Raises:
            NotAloneError: they depend on more of the text.
        """
        raw, shift = before + chunk, len(before)
        for start, stop, token in self.added.split_early(raw):
            if token is not None:
                if before and not start:  # it takes the space
                    raise NotAloneError
                yield Item(token, range(start - shift, stop - shift), self.added.ids[token])
                continue
            part = raw[start:stop]
            text, sources = self._in_chunk.sourced(part)
            is_open = not closed and stop == len(raw)
            if not self._is_alone(part, text, is_open):
                raise NotAloneError
            if self._strips and not is_open:
                text = text.rstrip(WHITE)
            if self._joins:
                text, sources = _join_spaces(text, sources)
                text = text.rstrip(" ") if is_open else text
            sources = [start - shift + source for source in sources]
            yield from self._words(text, sources, at_start=not before)

    def plain_items(self, words: Sequence[str], *, spaced: bool) -> Iterator[Item]:
        """Yield the words of a chunk, told by ``plain`` as even.

        Args:
            words: the words of the chunk behind a space.
            spaced: whether it has that space before it; else it begins alike without one.
        """
        stop = -1 if words[0][0] == " " else 0
        for word in words:
            start, stop = stop, stop + len(word)
            sources: Sequence[int] = range(start, stop)
            if start < 0 and not spaced:
                sources = [0, *range(stop)]
            token_id = self.plain.token_ids.get(word)
            if token_id is None:
                text = self.plain.spelled(word)
                yield Item(text, sources if len(text) == len(word) else [start, *sources])
            else:
                yield Item(word, sources, token_id)

    def ends_plainly(self, text: str) -> bool:
        """Tell whether a text ends in a character that is neither white space nor dropped."""
        image = self._in_chunk.image(text[-1:])
        return image[-1:].strip(WHITE) != ""

    def _is_alone(self, part: str, text: str, is_open: bool) -> bool:
        """Tell whether what was made of a part of a chunk is what is made of it in its text."""
        if part[:1] == " " != text[:1] or self._has_late(text):
            return False
        if self._strips and is_open:
            # What is white space, but no space, goes if nothing but white space follows.
            return text.rstrip(WHITE) == text.rstrip(" ")
        return True

    def _is_prefixed(self, at_start: bool) -> bool:
        """Tell whether what begins with no space is to begin with `UNDERLINE`."""
        prefix = self._rules.prefix
        return prefix == "always" or (prefix == "first" and at_start)

    def _has_late(self, text: str) -> bool:
        return self._late and any(part.token for part in self.added.split_late(text))

    def _words(self, text: str, sources: list[int], *, at_start: bool) -> Iterator[Item]:
        """Yield the words of a part; ``at_start`` if a source of 0 is the start of the text."""
        runs = [(text.replace(" ", UNDERLINE), sources)]
        if self._rules.at_white_space:
            runs = [(run.group(), sources[run.start() : run.end()]) for run in _find_runs(text)]
        for run, places in runs:
            if not run:
                continue
            wants = self._is_prefixed(at_start and places[0] == 0)
            if wants and not run.startswith(UNDERLINE):
                run, places = UNDERLINE + run, [places[0], *places]
            for match in _find_words(run):
                yield Item(match.group(), places[match.start() : match.end()])
