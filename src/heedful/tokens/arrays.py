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
    """(N,) Token ids."""
    begins: Indices
    """(N,) Start of each piece in its text, in characters; empty if not requested."""
    ends: Indices
    """(N,) End of each piece; empty if not requested."""
    bounds: Indices
    """(R + 1,) Index of the first piece of each text, and the end of the last text."""
    begins_word: NDArray[np.bool_]
    """(N,) Whether each piece begins a word; empty if not known."""

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
        """Return the pieces with the offsets of each text shifted by a number of characters."""
        if not len(self.begins):
            return self
        each = np.repeat(shifts, np.diff(self.bounds))
        return replace(self, begins=self.begins + each, ends=self.ends + each)

    def id_lists(self) -> list[list[int]]:
        """Return the token ids of each text."""
        # Convert row by row: one large list would double the memory and miss the cache when cut.
        ids = _as_objects(self.ids)
        return [ids[start:end].tolist() for start, end in pairwise(self.bounds.tolist())]


_TABLE_SIZES = tuple(2**bits for bits in range(16, 19))
"""Sizes of the tables of shared int objects, which avoid a new object for each list item. The
smallest sufficient table is used."""


def as_list(array: Indices) -> list[int]:
    """Return the items of an array, all non-negative, as Python ints."""
    items: list[int] = _as_objects(array).tolist()
    return items


def _as_objects(array: Indices) -> Indices | NDArray[np.object_]:
    """Return an array of shared Python ints, or the array itself if a value is too large."""
    largest = array.max(initial=0)
    table_size = next((count for count in _TABLE_SIZES if largest < count), None)
    return array if table_size is None else _shared_numbers(table_size).take(array)


@cache
def _shared_numbers(count: int) -> NDArray[np.object_]:
    return np.arange(count).astype(object)


def as_arrays(lists: PieceLists) -> PieceArrays:
    """Convert the pieces of many texts from lists to arrays."""
    offsets = np.array(lists.offsets, np.int64).reshape(-1, 2)
    words, bounds = np.array(lists.words, np.int64), np.array(lists.bounds, np.int64)
    begins_word = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=begins_word[1:])
    if len(words):
        begins_word[bounds[:-1][bounds[:-1] < len(words)]] = True
    return PieceArrays(
        ids=np.array(lists.ids, np.int64),
        begins=offsets[:, 0],
        ends=offsets[:, 1],
        bounds=bounds,
        begins_word=begins_word,
    )


def joined(parts: Sequence[PieceArrays]) -> PieceArrays:
    """Concatenate the pieces of several batches of texts."""
    return PieceArrays(
        ids=np.concatenate([part.ids for part in parts]),
        begins=np.concatenate([part.begins for part in parts]),
        ends=np.concatenate([part.ends for part in parts]),
        bounds=bounds_of(np.concatenate([np.diff(part.bounds) for part in parts])),
        begins_word=np.concatenate([part.begins_word for part in parts]),
    )


def bounds_of(sizes: Indices) -> Indices:
    """Return the start of each of consecutive ranges with these sizes, and the end of the last."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def ranges(starts: Indices, sizes: Indices) -> Indices:
    """Concatenate ranges of consecutive integers.

    Args:
        starts: the first integer of each range. Shape (R,).
        sizes: the length of each range. Shape (R,).
    """
    bounds = bounds_of(sizes)
    return np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes)
