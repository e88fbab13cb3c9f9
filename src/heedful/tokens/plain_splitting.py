"""The short way from a text to its words, for texts in which nothing depends on its neighbours.

Most characters become the same whatever is beside them. A text of nothing else is rewritten by a
table and cut by one pattern; all others are split as `splitting.py` has it, with the same result.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from heedful.tokens.added import AddedTokens
from heedful.tokens.normalize import Images
from heedful.tokens.rewriting import TOGETHER, WHITE, Replace, Rewriting, Step

UNDERLINE = "▁"

_MARKS = range(ord(TOGETHER) + 1, 0xE000)
"""Code points that stand for added tokens: halves of surrogate pairs, as `TOGETHER` is."""
_find_spaces = re.compile("  +")
_find_white = re.compile(f"[{WHITE}]").search


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
    """Splits texts.

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
        self._marks = dict(zip(letters, map(chr, _MARKS), strict=False)) if knows_letters else {}
        self.token_ids = {mark: added.ids[letter] for letter, mark in self._marks.items()}
        """Words that stand for an added token, and its id."""
        self._has_others = added.others_are_in if knows_letters else added.are_in
        self._images = Images(self._image)
        marks = "".join(self.token_ids)
        words = f"[^ {marks}]+" if at_white_space else f" ?[^ {marks}]+| "
        self._find_words = re.compile(f"[{marks}]|{words}" if marks else words).findall
        # Whether a word begins a text is not told where the white space before it is gone.
        self._splits = prefix != "first" or not (at_white_space or steps.trims)

    def words(self, text: str, *, is_open: bool = False) -> list[str] | None:
        """Return the words of a text; None where it has to be split the other way.

        Args:
            text: the text.
            is_open: whether more of the text follows, behind a space.

        Returns:
            The words as `spelled` and `token_ids` know them.
        """
        if not self._splits or self._has_others(text) or any(old in text for old in self._replaced):
            return None
        steps = self._steps
        if steps.trims and not is_open:
            text = text.strip(WHITE)
        rewritten = text.translate(self._images)
        if TOGETHER in rewritten or self._has_late(rewritten):
            return None
        if steps.joins and "  " in rewritten:
            rewritten = _find_spaces.sub(" ", rewritten)
        if steps.joins if is_open else steps.strips:
            rewritten = rewritten.rstrip(" ")
        if self._prefix == "first" and rewritten and rewritten[0] not in (" ", *self.token_ids):
            rewritten = f" {rewritten}"
        return self._find_words(rewritten)

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
        is_plain = image and UNDERLINE not in image and not _find_white(image.replace(" ", ""))
        return image if is_plain else TOGETHER
