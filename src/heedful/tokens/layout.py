"""The layout of a model's special tokens around a text or a pair of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLayout:
    """The ids of the special tokens of a row.

    Rows are ``begin`` text ``end`` and ``begin`` first ``middle`` second ``end``. In BERT, these
    are ``[CLS] text [SEP]`` and ``[CLS] first [SEP] second [SEP]``.
    """

    begin: tuple[int, ...] = ()
    middle: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    second_type: int = 0
    """Token type of a second text and its ``end`` tokens; all other tokens have type 0."""
    uses_token_types: bool = True
    """Whether models receive token types. Otherwise all tokens have the same type."""
    types_single_texts: bool = False
    """Whether models also receive the types of single texts. For most models type 0 is the same as
    no type; GPT-2 adds the embedding of word 0."""
    closing_type: int | None = None
    """Token type of the last special token; None for the type of the text before it."""
    pads_left: bool = False
    """Whether padding precedes the first token of a row, instead of following the last."""
    padding_type: int = 0
    """Token type of padding."""

    def size(self, *, pair: bool) -> int:
        """Return the number of special tokens in a row."""
        return len(self.begin) + len(self.end) + (len(self.middle) if pair else 0)

    def without_special_tokens(self) -> "PairLayout":
        """Return the layout of rows without special tokens."""
        return replace(self, begin=(), middle=(), end=(), closing_type=None)

    def padded(self, row: list[T], fillers: list[T]) -> list[T]:
        """Return a row with padding on the layout's side."""
        return fillers + row if self.pads_left else row + fillers

    def ids(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """Return the ids of a text or a pair, with special tokens."""
        if second is None:
            return [*self.begin, *first, *self.end]
        return [*self.begin, *first, *self.middle, *second, *self.end]

    def values(
        self, first: Sequence[T], second: Sequence[T] | None = None, *, special: T
    ) -> list[T]:
        """Lay out one value per token as in `ids`, with ``special`` for each special token."""
        values = [special] * len(self.begin) + [*first]
        if second is not None:
            values += [special] * len(self.middle) + [*second]
        return values + [special] * len(self.end)

    def class_position(self, length: int) -> int:
        """Return the position of the classification token in a row of ``length`` tokens."""
        return 0 if self.closing_type is None else length - 1

    def second_start(self, first: int) -> int:
        """Return the start of the second text in its row, after a first text of this length."""
        return len(self.begin) + first + len(self.middle)

    def type_split(self, first: int) -> int | None:
        """Return where tokens of type 1 start, after a first text of this length.

        None if the model receives no tokens of type 1.
        """
        return self.second_start(first) if self.second_type and self.uses_token_types else None

    def single_type_split(self, length: int) -> int | None:
        """Return the `type_split` of a single text in a row of this length: its end, or None."""
        return length if self.types_single_texts and self.uses_token_types else None

    def types(self, first: int, second: int | None = None) -> list[int]:
        """Return the token types of a row, given the lengths of its texts."""
        if second is None:
            types = [0] * (first + self.size(pair=False))
        else:
            second_size = second + len(self.end)
            types = [0] * self.second_start(first) + [self.second_type] * second_size
        if self.closing_type is not None:
            types[-1] = self.closing_type
        return types
