"""The fast path from a chunk to its words, for characters that do not depend on their neighbours.

Most characters are normalized independently of their neighbours. A chunk of only such characters is
rewritten by a table and split by one pattern. `splitting.py` splits all other chunks, by the same
rules.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from heedful.tokens.added import AddedTokens
from heedful.tokens.normalize import ReplacementTable
from heedful.tokens.rewriting import NEEDS_CONTEXT, WHITE, Replace, Rewriting, Step

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.replacements import VectorizedReplacements

WORD_START = "▁"

_MARKS = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b"
"""Placeholders for added tokens. They are ASCII, which is rewritten ten times as fast. A chunk that
contains one of these characters itself takes the slow path."""
_BATCH = 128
"""Number of chunks that are rewritten together."""
_find_spaces = re.compile("  +")
_find_odd = re.compile(f"[{WORD_START}{WHITE}{_MARKS}]").search


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The normalization steps before splitting, with the steps for white space kept apart."""

    inside: tuple[Step, ...]
    """The steps for the text between two spaces, independent of the surrounding text."""
    joins: bool
    """Whether consecutive spaces are then merged into one."""
    strips: bool
    """Whether white space is stripped from the end of each part between added tokens."""
    trims: bool
    """Whether white space is stripped from both ends of each part, before all other steps."""


class PlainSplitter:
    """Splits chunks that are not the last of their text.

    Args:
        steps: the normalization steps before splitting.
        prefix: see `Rules`.
        at_white_space: see `Rules`.
        added: the added tokens.
        has_late: whether a rewritten text contains added tokens.
    """

    def __init__(
        self,
        steps: Steps,
        *,
        prefix: str,
        at_white_space: bool,
        added: AddedTokens,
        has_late: Callable[[str], bool],
    ) -> None:
        self._steps = steps
        self._prefix = prefix
        self._has_late = has_late
        # These steps change nothing in a text without the strings they replace.
        replaced = list(takewhile(lambda step: isinstance(step, Replace), steps.inside))
        self._replaced = [step.old for step in replaced if isinstance(step, Replace)]
        self._others = Rewriting(steps.inside[len(replaced) :])
        letters = sorted(added.letters)
        # White space may be stripped from the parts before and after a token.
        knows_letters = not (steps.strips or steps.trims) and len(letters) <= len(_MARKS)
        self._marks = dict(zip(letters, _MARKS, strict=False)) if knows_letters else {}
        self.token_ids = {mark: added.ids[letter] for letter, mark in self._marks.items()}
        """Placeholder of an added token -> the token's id."""
        self._no_prefix = " " + "".join(self.token_ids)
        self._has_others = added.may_contain_others if knows_letters else added.may_contain
        self._images = ReplacementTable(self._image)
        self._many: VectorizedReplacements | None = None
        marks = "".join(self.token_ids)
        words = f"[^ {marks}]+" if at_white_space else f" ?[^ {marks}]+| "
        self._find_words = re.compile(f"[{marks}]|{words}" if marks else words).findall
        # A word after an added token does not begin a text, but nothing before the word shows it.
        self._splits = prefix != "first" or not at_white_space

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_many": None}  # large, and quick to rebuild

    def words(self, chunk: str, *, even: bool = False) -> list[str] | None:
        """Return the words of a chunk; None if it needs the slow path.

        Args:
            chunk: the chunk, including the space before it, if any.
            even: whether each character must map to exactly one character other than a space.

        Returns:
            The words, in the form that `spelled` and `token_ids` accept.
        """
        if not self._splits or self._has_others(chunk):
            return None
        if any(old in chunk for old in self._replaced):
            return None
        rewritten = chunk.translate(self._images)
        if NEEDS_CONTEXT in rewritten or self._has_late(rewritten):
            return None
        if even and (len(rewritten) != len(chunk) or " " in rewritten[1:]):
            return None
        if self._steps.joins:
            if "  " in rewritten:
                rewritten = _find_spaces.sub(" ", rewritten)
            rewritten = rewritten.rstrip(" ")
        if self._prefix != "never" and rewritten and rewritten[0] not in self._no_prefix:
            rewritten = f" {rewritten}"
        return self._find_words(rewritten)

    def words_of(self, chunks: Sequence[str], *, even: bool = False) -> Iterator[list[str] | None]:
        """Yield the `words` of each of many chunks that follow a space."""
        for start in range(0, len(chunks), _BATCH):
            group = chunks[start : start + _BATCH]
            block = " ".join(("", *group))
            rewritten = self._table.translate(block)
            # Chunks of several words, or with multi-character added tokens, are rare.
            are_plain = (
                self._splits
                and "" not in group
                and rewritten.count(" ") == len(group)
                and not any(old in block for old in self._replaced)
                and not self._has_others(block)
                and not self._has_late(rewritten)
            )
            if not are_plain:
                yield from (self.words(f" {chunk}", even=even) for chunk in group)
                continue
            for chunk, text in zip(group, islice(rewritten.split(" "), 1, None), strict=True):
                is_split = NEEDS_CONTEXT not in text and (not even or len(text) == len(chunk))
                yield self._find_words(f" {text}") if is_split else None

    @property
    def _table(self) -> "VectorizedReplacements":
        if self._many is None:
            from heedful.tokens.replacements import VectorizedReplacements

            self._many = VectorizedReplacements(self._images)
        return self._many

    def same_at_start(self, words: Sequence[str]) -> bool:
        """Return whether a chunk with these words after a space has the same words at the start."""
        return self._prefix != "never" and len(words[0]) > 1 and words[0][0] == " "

    def spelled(self, word: str) -> str:
        """Return a word as it is tokenized, with `WORD_START` for its space."""
        if word[0] == " ":
            return WORD_START + word[1:]
        return WORD_START + word if self._prefix == "always" else word

    def _image(self, character: str) -> str:
        """Return the result for a character; `NEEDS_CONTEXT` if the fast path cannot handle it."""
        if character in self._marks:
            return self._marks[character]
        image = self._others.image(character)
        if character in WHITE:
            return " " if image == " " else NEEDS_CONTEXT
        is_plain = image and not _find_odd(image.replace(" ", ""))
        return image if is_plain else NEEDS_CONTEXT
