"""Split text into SentencePiece words: ``▁`` replaces a space and begins a word.

The order follows the compiled reference: match added tokens whole, normalize the text between them
(`rewriting.py`), then split before each ``▁``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from heedful.tokens.added import AddedTokens
from heedful.tokens.plain_splitting import WORD_START, PlainSplitter, Steps
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

_find_words = re.compile(f"{WORD_START}?[^{WORD_START}]+|{WORD_START}").finditer
_find_runs = re.compile(f"[^{WHITE}]+").finditer
_join_spaces = JoinSpaces(new=" ").apply


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The rules for splitting a text into words."""

    steps: tuple[Step, ...]
    """Normalization steps before splitting."""
    prefix: Prefix = "always"
    """Which parts between added tokens get a ``▁`` if they do not begin with a space."""
    at_white_space: bool = False
    """Whether white space is dropped, as in older files, rather than kept in the word after it."""


class Item(NamedTuple):
    """A word or an added token of a text."""

    text: str
    sources: Sequence[int]
    """The source index in the text of each character."""
    token_id: int | None = None
    """The id of an added token; None for a word."""


class NeedsContextError(Exception):
    """The words of a chunk depend on the text around it."""


def _steps(rules: Rules) -> Steps:
    """Separate the steps for white space from the other steps."""
    steps = rules.steps
    inside = [*steps]
    # Joining spaces into ``▁`` has the same result, unless words end at white space only.
    spaces = [JoinSpaces(new=" "), *([] if rules.at_white_space else [JoinSpaces(new=WORD_START)])]
    joins = bool(inside) and inside[-1] in spaces
    if joins:
        inside.pop()
    strips = inside[-1:] == [Strip(left=False, right=True)]
    if strips:
        inside.pop()
    # DeBERTa's rules. After other steps, stripping would act on their output.
    after_lowercase = steps[1:] if steps[:1] == (LOWERCASE,) else steps
    trims = (
        after_lowercase[:1] == (_BOTH_ENDS,)
        and all(isinstance(step, Precompiled) for step in after_lowercase[1:-1])
        and after_lowercase[-1] == JoinSpaces(new=" ")
    )
    if trims:
        inside.remove(_BOTH_ENDS)
    return Steps(inside=tuple(inside), joins=joins, strips=strips, trims=trims)


class Splitter:
    """Splits texts into words and added tokens.

    Args:
        rules: the rules for splitting.
        vocabulary: the tokens. Added tokens are matched whole.

    Attributes:
        added: the added tokens.
        plain: the fast path for most chunks.
    """

    def __init__(self, rules: Rules, vocabulary: Vocabulary) -> None:
        self._rules = rules
        self._whole = Rewriting(rules.steps)
        self.added = AddedTokens(vocabulary, self._whole.text)
        self._late = bool(vocabulary.special.normalized & self.added.ids.keys())
        steps = _steps(rules)
        self._joins, self._strips, self._trims = steps.joins, steps.strips, steps.trims
        self._in_chunk = Rewriting(steps.inside)
        self._has_chunks = (
            all(step.is_local(" ") for step in steps.inside)
            and (self._joins or not self._strips)
            and not vocabulary.special.rstrip
            and not vocabulary.special.single_word
            and not any(character.isspace() for character in "".join(self.added.ids))
            # Once leading white space is stripped, a word does not show whether it begins the text.
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
        """Return whether a text may be cut at spaces into chunks that are split independently."""
        # Stripping the parts between added tokens works only on the whole text.
        return self._has_chunks and not (self._trims and self.added.may_contain(text))

    def trimmed(self, text: str) -> tuple[int, str]:
        """Strip white space from the ends of a text that has chunks, if the rules do so.

        Returns:
            The number of characters removed from the start, and the remaining text.
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
                item_sources = sources[first:last]
                if late is None:
                    yield from self._words(rewritten[first:last], item_sources, at_start=True)
                else:
                    yield Item(late, item_sources, self.added.ids[late])

    def chunk_items(self, before: str, chunk: str, *, closed: bool) -> Iterator[Item]:
        """Yield the words and added tokens of a chunk of a text.

        Args:
            before: the text before the chunk: a space or nothing.
            chunk: the chunk.
            closed: whether the chunk is the last of its text.

        Raises:
            NeedsContextError: the words depend on the text around the chunk.
        """
        raw, shift = before + chunk, len(before)
        for start, stop, token in self.added.split_early(raw):
            if token is not None:
                if before and not start:  # the token absorbs the space
                    raise NeedsContextError
                yield Item(token, range(start - shift, stop - shift), self.added.ids[token])
                continue
            part = raw[start:stop]
            text, sources = self._in_chunk.sourced(part)
            is_open = not closed and stop == len(raw)
            if not self._is_independent(part, text, is_open):
                raise NeedsContextError
            if self._strips and not is_open:
                text = text.rstrip(WHITE)
            if self._joins:
                text, sources = _join_spaces(text, sources)
                text = text.rstrip(" ") if is_open else text
            sources = [start - shift + source for source in sources]
            yield from self._words(text, sources, at_start=not before)

    def plain_items(self, words: Sequence[str], *, spaced: bool) -> Iterator[Item]:
        """Yield the words of a chunk that ``plain`` has split with ``even``.

        Args:
            words: the words of the chunk after a space.
            spaced: whether the chunk follows a space. Otherwise it begins the text with the same
                words.
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
        """Return whether a text ends in a character that is neither white space nor dropped."""
        image = self._in_chunk.image(text[-1:])
        return image[-1:].strip(WHITE) != ""

    def _is_independent(self, part: str, text: str, is_open: bool) -> bool:
        """Return whether a part of a chunk gives the same result alone as within its text."""
        if part[:1] == " " != text[:1] or self._has_late(text):
            return False
        if self._strips and is_open:
            # White space other than U+0020 is stripped if only white space follows.
            return text.rstrip(WHITE) == text.rstrip(" ")
        return True

    def _is_prefixed(self, at_start: bool) -> bool:
        """Return whether a part that does not begin with a space gets a leading `WORD_START`."""
        prefix = self._rules.prefix
        return prefix == "always" or (prefix == "first" and at_start)

    def _has_late(self, text: str) -> bool:
        return self._late and any(part.token for part in self.added.split_late(text))

    def _words(self, text: str, sources: list[int], *, at_start: bool) -> Iterator[Item]:
        """Yield the words of a part; ``at_start`` if source index 0 is the start of the text."""
        runs = [(text.replace(" ", WORD_START), sources)]
        if self._rules.at_white_space:
            runs = [(run.group(), sources[run.start() : run.end()]) for run in _find_runs(text)]
        for run, run_sources in runs:
            if not run:
                continue
            needs_prefix = self._is_prefixed(at_start and run_sources[0] == 0)
            if needs_prefix and not run.startswith(WORD_START):
                run, run_sources = WORD_START + run, [run_sources[0], *run_sources]
            for match in _find_words(run):
                yield Item(match.group(), run_sources[match.start() : match.end()])
