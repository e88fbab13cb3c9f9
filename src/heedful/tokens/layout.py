"""Where a model's special tokens stand: around a text, or around the two of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLayout:
    """The ids of the special tokens of a row.

    Rows are ``begin`` text ``end`` and ``begin`` first ``middle`` second ``end``: of BERT,
    ``[CLS] text [SEP]`` and ``[CLS] first [SEP] second [SEP]``.
    """

    begin: tuple[int, ...] = ()
    middle: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    second_type: int = 0
    """Token type of a second text and of what closes it; all other tokens are of type 0."""
    tells_types: bool = True
    """Whether models are told these types, rather than to take all tokens for one type."""
    tells_alone: bool = False
    """Whether they are told the types of a text alone, too. To most models type 0 is the same as
    none; GPT-2 adds the vector of word 0."""
    closing_type: int | None = None
    """Token type of the last special token; None for that of the text before it."""
    pads_left: bool = False
    """Whether rows are filled up before their first token, rather than behind their last."""
    padding_type: int = 0
    """Token type of what fills them up."""

    def size(self, *, pair: bool) -> int:
        """Return how many special tokens a row has."""
        return len(self.begin) + len(self.end) + (len(self.middle) if pair else 0)

    def bare(self) -> "PairLayout":
        """Return the layout of rows without special tokens."""
        return replace(self, begin=(), middle=(), end=(), closing_type=None)

    def padded(self, row: list[T], fillers: list[T]) -> list[T]:
        """Put what fills a row up on its side."""
        return fillers + row if self.pads_left else row + fillers

    def ids(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """Put special tokens around the ids of a text, or of two."""
        if second is None:
            return [*self.begin, *first, *self.end]
        return [*self.begin, *first, *self.middle, *second, *self.end]

    def values(
        self, first: Sequence[T], second: Sequence[T] | None = None, *, special: T
    ) -> list[T]:
        """Lay out one value a token as `ids` does ids, with ``special`` for each special token."""
        values = [special] * len(self.begin) + [*first]
        if second is not None:
            values += [special] * len(self.middle) + [*second]
        return values + [special] * len(self.end)

    def class_position(self, length: int) -> int:
        """Return where the token that stands for all of a row stands, in a row of so many."""
        return 0 if self.closing_type is None else length - 1

    def second_start(self, first: int) -> int:
        """Return where in its row a second text starts, behind a first of so many tokens."""
        return len(self.begin) + first + len(self.middle)

    def type_split(self, first: int) -> int | None:
        """Return where the tokens that a model takes for type 1 start, behind a first text.

        That is None where there are none.
        """
        return self.second_start(first) if self.second_type and self.tells_types else None

    def alone_split(self, length: int) -> int | None:
        """Return the same for a text alone, in a row of so many tokens: its end, or None."""
        return length if self.tells_alone and self.tells_types else None

    def types(self, first: int, second: int | None = None) -> list[int]:
        """Return the token types of a row of texts of so many tokens."""
        if second is None:
            types = [0] * (first + self.size(pair=False))
        else:
            rest = second + len(self.end)
            types = [0] * self.second_start(first) + [self.second_type] * rest
        if self.closing_type is not None:
            types[-1] = self.closing_type
        return types
