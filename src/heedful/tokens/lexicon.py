"""A vectorized lexicon of short words and their pieces, filled when a word first occurs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.word_keys import Keys, KeyTable, distinct, keys_at

MAX_CACHED = 2**17
"""Number of words to cache besides the known words, before the cache is cleared."""
_REACH = 64
"""Maximum probing distance of a cached word."""

WordPieces = tuple[Indices, Indices, Indices, Indices]
"""The pieces of W words, N in all: the number of pieces of each word, (W,), and the id, start and
end of each piece, (N,). Starts and ends are characters in the word."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entries:
    """The pieces of W numbered words, N in all, with offsets relative to the start of the word."""

    firsts: Indices
    """(W,) Index of the first piece of each word."""
    counts: Indices
    """(W,) Number of pieces of each word."""
    ids: Indices
    """(N,) Token ids."""
    begins: Indices
    """(N,) Start of each piece."""
    ends: Indices
    """(N,) End of each piece."""
    buffers: tuple[Indices, ...] = ()
    """The arrays that hold the columns above, with spare room at the end; empty if none."""

    def __len__(self) -> int:
        return len(self.firsts)

    def extended(self, counts: Indices, ids: Indices, begins: Indices, ends: Indices) -> "Entries":
        """Return these words followed by new words, which get the next numbers.

        If the buffers have enough room, the new words are written there. This overwrites the words
        of any earlier extension.
        """
        firsts = bounds_of(counts)[:-1] + len(self.ids)
        old = (self.firsts, self.counts, self.ids, self.begins, self.ends)
        new = (firsts, counts, ids, begins, ends)
        buffers = tuple(
            _appended(buffer, len(column), more)
            for buffer, column, more in zip(self.buffers or old, old, new, strict=True)
        )
        columns = [
            buffer[: len(column) + len(more)]
            for buffer, column, more in zip(buffers, old, new, strict=True)
        ]
        return Entries(
            firsts=columns[0],
            counts=columns[1],
            ids=columns[2],
            begins=columns[3],
            ends=columns[4],
            buffers=buffers,
        )


def _appended(buffer: Indices, used: int, values: Indices) -> Indices:
    """Append numbers to the used part of a buffer. If it is too small, double it."""
    size = used + len(values)
    if size > len(buffer):
        buffer = np.concatenate([buffer[:used], np.empty(2 * size - used, np.int64)])
    buffer[used:size] = values
    return buffer


class Lexicon:
    """Numbers words: first the known words, then words in the order in which they occur.

    Args:
        known: the pieces of the known words.
        keys: the keys of some known words.
        numbers: the number of the word of each key.
        cut: computes the pieces of words, given their keys and lengths in letters.
    """

    def __init__(
        self,
        known: Entries,
        keys: Keys,
        numbers: Indices,
        cut: Callable[[Keys, Indices], WordPieces],
    ) -> None:
        self._known = known
        self._known_keys = keys, numbers
        self._cut = cut
        self.clear()

    def clear(self) -> None:
        """Clear the cache, except for the known words."""
        empty = np.zeros(0, np.int64)
        self.entries = self._known.extended(empty, empty, empty, empty)  # allocates room
        self._table = KeyTable(len(self._known) + MAX_CACHED)
        self._table.add(*self._known_keys)

    def ensure_capacity(self, count: int) -> None:
        """Ensure room for ``count`` more words, at most `MAX_CACHED`."""
        if len(self.entries) + count > len(self._known) + MAX_CACHED:
            self.clear()

    def numbers(self, symbols: NDArray[np.uint8], starts: Indices, sizes: Indices) -> Indices:
        """Return the number of each word of a text, which is its index in `entries`.

        Args:
            symbols: the letters of the text; see `keys_at`.
            starts: start of each word. Shape (W,).
            sizes: number of letters of each word, 1 to 16. Shape (W,).
        """
        keys = keys_at(symbols, starts, sizes)
        numbers = self._table.find(keys)
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            representatives, group_ids = distinct(keys.at(missing))
            new = missing[representatives]
            new_numbers = np.arange(len(self.entries), len(self.entries) + len(new))
            self.entries = self.entries.extended(*self._cut(keys.at(new), sizes[new]))
            self._table.add(keys.at(new), new_numbers, reach=_REACH)
            numbers[missing] = new_numbers[group_ids]
        return numbers
