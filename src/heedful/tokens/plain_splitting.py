"""The short way from a chunk to its words, where no character depends on its neighbours.

Most characters become the same whatever is beside them. A chunk of nothing else is rewritten by a
table and cut by one pattern; all others are split as `splitting.py` has it, with the same result.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from heedful.tokens.added import AddedTokens
from heedful.tokens.normalize import Images
from heedful.tokens.rewriting import TOGETHER, WHITE, Replace, Rewriting, Step

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.images import ImageTable

UNDERLINE = "▁"

_MARKS = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b"
"""What stands for added tokens, in ASCII, which is rewritten ten times as fast. A chunk that has
one of them itself is split the other way."""
_TOGETHER = 128
"""Chunks that are rewritten together."""
_find_spaces = re.compile("  +")
_find_odd = re.compile(f"[{UNDERLINE}{WHITE}{_MARKS}]").search


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """What becomes of a text before it is split, apart from the white space at ends."""

    inside: tuple[Step, ...]
    """What becomes of what is between two spaces, whatever is around them."""
    joins: bool
    """Whether several spaces become one then."""
    strips: bool
    """Whether white space goes from the end of each part between added tokens."""
    trims: bool
    """Whether white space goes from both ends of each part, before all else."""


class PlainSplitter:
    """Splits chunks that have more of their text behind them.

    Args:
        steps: what becomes of a text before.
        prefix: see `Rules`.
        at_white_space: see `Rules`.
        added: the added tokens.
        has_late: whether there are added tokens in a text that has been rewritten.
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
        # Where none of these is in a text, nothing is put in their place.
        replaced = list(takewhile(lambda step: isinstance(step, Replace), steps.inside))
        self._replaced = [step.old for step in replaced if isinstance(step, Replace)]
        self._others = Rewriting(steps.inside[len(replaced) :])
        letters = sorted(added.letters)
        # White space may go from the parts before and behind a token.
        knows_letters = not (steps.strips or steps.trims) and len(letters) <= len(_MARKS)
        self._marks = dict(zip(letters, _MARKS, strict=False)) if knows_letters else {}
        self.token_ids = {mark: added.ids[letter] for letter, mark in self._marks.items()}
        """Words that stand for an added token, and its id."""
        self._no_prefix = " " + "".join(self.token_ids)
        self._has_others = added.others_are_in if knows_letters else added.are_in
        self._images = Images(self._image)
        self._many: ImageTable | None = None
        marks = "".join(self.token_ids)
        words = f"[^ {marks}]+" if at_white_space else f" ?[^ {marks}]+| "
        self._find_words = re.compile(f"[{marks}]|{words}" if marks else words).findall
        # A word behind an added token begins no text, and nothing before it tells.
        self._splits = prefix != "first" or not at_white_space

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_many": None}  # it is large, and soon made anew

    def words(self, chunk: str, *, even: bool = False) -> list[str] | None:
        """Return the words of a chunk; None where it has to be split the other way.

        Args:
            chunk: the chunk, and the space before it if there is one.
            even: whether each character has to become one, none of them a space.

        Returns:
            The words as `spelled` and `token_ids` know them.
        """
        if not self._splits or self._has_others(chunk):
            return None
        if any(old in chunk for old in self._replaced):
            return None
        rewritten = chunk.translate(self._images)
        if TOGETHER in rewritten or self._has_late(rewritten):
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
        """Yield what `words` returns for each of many chunks that have a space before them."""
        for start in range(0, len(chunks), _TOGETHER):
            some = chunks[start : start + _TOGETHER]
            block = " ".join(("", *some))
            rewritten = self._table.translate(block)
            # One that is more than one word, or an added token of several characters, is rare.
            are_plain = (
                self._splits
                and "" not in some
                and rewritten.count(" ") == len(some)
                and not any(old in block for old in self._replaced)
                and not self._has_others(block)
                and not self._has_late(rewritten)
            )
            if not are_plain:
                yield from (self.words(f" {chunk}", even=even) for chunk in some)
                continue
            for chunk, text in zip(some, islice(rewritten.split(" "), 1, None), strict=True):
                is_told = TOGETHER not in text and (not even or len(text) == len(chunk))
                yield self._find_words(f" {text}") if is_told else None

    @property
    def _table(self) -> "ImageTable":
        if self._many is None:
            from heedful.tokens.images import ImageTable

            self._many = ImageTable(self._images)
        return self._many

    def begins_alike(self, words: Sequence[str]) -> bool:
        """Tell whether a chunk that has these words behind a space has them at the start, too."""
        return self._prefix != "never" and len(words[0]) > 1 and words[0][0] == " "

    def spelled(self, word: str) -> str:
        """Return a word as it is cut, `UNDERLINE` in the place of a space."""
        if word[0] == " ":
            return UNDERLINE + word[1:]
        return UNDERLINE + word if self._prefix == "always" else word

    def _image(self, character: str) -> str:
        """Return what becomes of a character; `TOGETHER` if that may not be all there is to it."""
        if character in self._marks:
            return self._marks[character]
        image = self._others.image(character)
        if character in WHITE:
            return " " if image == " " else TOGETHER
        is_plain = image and not _find_odd(image.replace(" ", ""))
        return image if is_plain else TOGETHER
