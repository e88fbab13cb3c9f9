"""The pieces of many texts as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.pieces import PieceLists

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PieceArrays:
    """The pieces of R texts, N in all."""

    ids: Indices
    """(N,)"""
    begins: Indices
    """(N,) Where a piece starts in its text, in characters; empty where that was not asked for."""
    ends: Indices
    """(N,) Where it ends."""
    bounds: Indices
    """(R + 1,) Where the pieces of each text start, and where the last ones end."""

    def ids_of(self, index: int) -> list[int]:
        """See `PieceBatch`."""
        ids: list[int] = self.ids[self.bounds[index] : self.bounds[index + 1]].tolist()
        return ids

    def start(self, index: int) -> int:
        """See `PieceBatch`."""
        return int(self.bounds[index])

    def bound_list(self) -> list[int]:
        """See `PieceBatch`."""
        bounds: list[int] = self.bounds.tolist()
        return bounds

    def lists(self) -> PieceLists:
        """See `PieceBatch`."""
        return PieceLists(
            ids=as_list(self.ids),
            offsets=list(zip(as_list(self.begins), as_list(self.ends), strict=True)),
            bounds=self.bounds.tolist(),
        )

    def arrays(self) -> "PieceArrays":
        """See `PieceBatch`."""
        return self

    def grouped(self, counts: Sequence[int]) -> "PieceArrays":
        """See `PieceBatch`."""
        return replace(self, bounds=self.bounds[bounds_of(np.array(counts, np.int64))])

    def shifted(self, shifts: Indices) -> "PieceArrays":
        """Return the same pieces, in texts that start later by so many characters each."""
        if not len(self.begins):
            return self
        each = np.repeat(shifts, np.diff(self.bounds))
        return replace(self, begins=self.begins + each, ends=self.ends + each)

    def id_lists(self) -> list[list[int]]:
        """Return the ids of each text."""
        # Row by row: one list of them all would be in memory twice, and in no cache when it is cut.
        ids = _as_objects(self.ids)
        return [ids[start:end].tolist() for start, end in pairwise(self.bounds.tolist())]


_SHARED = tuple(2**bits for bits in range(16, 19))
"""How many whole numbers from 0 lists share, instead of a new object for each item of each: no more
than they need."""


def as_list(array: Indices) -> list[int]:
    """Return the items of an array, none below 0, as Python's numbers."""
    items: list[int] = _as_objects(array).tolist()
    return items


def _as_objects(array: Indices) -> Indices | NDArray[np.object_]:
    """Return an array of Python's numbers, or where one is large the array itself."""
    largest = array.max(initial=0)
    enough = next((count for count in _SHARED if largest < count), None)
    return array if enough is None else _shared_numbers(enough).take(array)


@cache
def _shared_numbers(count: int) -> NDArray[np.object_]:
    return np.arange(count).astype(object)


def as_arrays(lists: PieceLists) -> PieceArrays:
    """Return the pieces of many texts as arrays, given as lists."""
    offsets = np.array(lists.offsets, np.int64).reshape(-1, 2)
    return PieceArrays(
        ids=np.array(lists.ids, np.int64),
        begins=offsets[:, 0],
        ends=offsets[:, 1],
        bounds=np.array(lists.bounds, np.int64),
    )


def joined(parts: Sequence[PieceArrays]) -> PieceArrays:
    """Put the pieces of several lists of texts together."""
    return PieceArrays(
        ids=np.concatenate([part.ids for part in parts]),
        begins=np.concatenate([part.begins for part in parts]),
        ends=np.concatenate([part.ends for part in parts]),
        bounds=bounds_of(np.concatenate([np.diff(part.bounds) for part in parts])),
    )


def bounds_of(sizes: Indices) -> Indices:
    """Return where ranges of these sizes start, one behind the other, and where the last ends."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def ranges(starts: Indices, sizes: Indices) -> Indices:
    """Return the numbers of all ranges, one range after the other.

    Args:
        starts: the first number of each range. Shape (R,).
        sizes: how many numbers each has. Shape (R,).
    """
    bounds = bounds_of(sizes)
    return np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes)
