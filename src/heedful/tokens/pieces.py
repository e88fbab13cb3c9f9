"""The pieces of one text, and of a batch of texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.arrays import PieceArrays

Offsets = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """The pieces of one text in order, as parallel lists."""

    ids: list[int] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    """Start and end of each piece in the text, in characters. If the text is a list of words, the
    offsets are relative to the word."""
    words: list[int] = field(default_factory=list)
    """Index of each piece's word. Words, punctuation marks and special tokens all count, in text
    order. If the text is a list of words, the index into that list."""


class PieceBatch(Protocol):
    """The pieces of many texts, stored as lists or as arrays."""

    def ids_of(self, index: int) -> list[int]:
        """Return the token ids of one text."""

    def start(self, index: int) -> int:
        """Return the index of a text's first piece."""

    def bound_list(self) -> list[int]:
        """Return the start index of each text's pieces, and the end of the last text."""

    def lists(self) -> "PieceLists":
        """Return the pieces as lists."""

    def arrays(self) -> "PieceArrays":
        """Return the pieces as arrays."""

    def grouped(self, counts: Sequence[int]) -> "PieceBatch":
        """Merge groups of adjacent texts, such as the words of a text, given the group sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceLists:
    """The pieces of many texts as lists."""

    ids: list[int]
    offsets: list[Offsets]
    """Empty if not requested."""
    bounds: list[int]
    words: list[int] = field(default_factory=list)
    """Index of each piece's word in its text; empty if not requested, or if texts were merged."""

    @classmethod
    def none(cls, count: int) -> "PieceLists":
        """Return an empty list of pieces for each of ``count`` texts."""
        return cls(ids=[], offsets=[], bounds=[0] * (count + 1))

    @classmethod
    def of(
        cls,
        ids: Sequence[Sequence[int]],
        offsets: Iterable[Sequence[Offsets]] = (),
        words: Iterable[Sequence[int]] = (),
    ) -> "PieceLists":
        """Concatenate the pieces of the given texts."""
        return cls(
            ids=list(chain.from_iterable(ids)),
            offsets=list(chain.from_iterable(offsets)),
            bounds=list(accumulate(map(len, ids), initial=0)),
            words=list(chain.from_iterable(words)),
        )

    @classmethod
    def of_texts(cls, texts: Sequence[Pieces]) -> "PieceLists":
        """Concatenate the pieces of texts, with their offsets and words."""
        return cls.of(
            [text.ids for text in texts],
            [text.offsets for text in texts],
            [text.words for text in texts],
        )

    def ids_of(self, index: int) -> list[int]:
        """See `PieceBatch`."""
        return self.ids[self.bounds[index] : self.bounds[index + 1]]

    def start(self, index: int) -> int:
        """See `PieceBatch`."""
        return self.bounds[index]

    def bound_list(self) -> list[int]:
        """See `PieceBatch`."""
        return self.bounds

    def lists(self) -> "PieceLists":
        """See `PieceBatch`."""
        return self

    def arrays(self) -> "PieceArrays":
        """See `PieceBatch`."""
        from heedful.tokens.arrays import as_arrays

        return as_arrays(self)

    def grouped(self, counts: Sequence[int]) -> "PieceLists":
        """See `PieceBatch`."""
        bounds = [self.bounds[index] for index in accumulate(counts, initial=0)]
        return PieceLists(ids=self.ids, offsets=self.offsets, bounds=bounds)
