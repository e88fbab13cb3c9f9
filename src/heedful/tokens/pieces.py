"""Pieces of texts: of one text, and of many, one text after the other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.arrays import PieceArrays

Offsets = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """The pieces of one text in order, as parallel lists."""

    ids: list[int] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    """Start and end, in characters, of the slice of the text that the piece came from; for a text
    given as words, of its word."""
    words: list[int] = field(default_factory=list)
    """Index of the piece's word: among words, punctuation marks and special tokens as they stand
    in the text; for a text given as words, among those."""


class PieceBatch(Protocol):
    """The pieces of many texts, as lists or as arrays, whichever they were made as."""

    def ids_of(self, index: int) -> list[int]:
        """Return the ids of one text."""

    def start(self, index: int) -> int:
        """Return where the pieces of one text start."""

    def bound_list(self) -> list[int]:
        """Return where the pieces of each text start, and where the last ones end."""

    def lists(self) -> "PieceLists":
        """Return them as lists."""

    def arrays(self) -> "PieceArrays":
        """Return them as arrays."""

    def grouped(self, counts: Sequence[int]) -> "PieceBatch":
        """Return the pieces of groups of texts, such as the words of a text, given their sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceLists:
    """The pieces of many texts as lists."""

    ids: list[int]
    offsets: list[Offsets]
    """Empty where they were not asked for."""
    bounds: list[int]

    @classmethod
    def none(cls, count: int) -> "PieceLists":
        """Return the pieces of so many texts that have none."""
        return cls(ids=[], offsets=[], bounds=[0] * (count + 1))

    @classmethod
    def of(
        cls, ids: Sequence[Sequence[int]], offsets: Iterable[Sequence[Offsets]] = ()
    ) -> "PieceLists":
        """Put together the pieces of texts, given for each text."""
        return cls(
            ids=list(chain.from_iterable(ids)),
            offsets=list(chain.from_iterable(offsets)),
            bounds=list(accumulate(map(len, ids), initial=0)),
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
