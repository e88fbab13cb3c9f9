"""Words of a few letters and their pieces, many at once: each is worked out when first met."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.keys import Keys, KeyTable, distinct, keys_at

MAX_REMEMBERED = 2**17
"""Words that are remembered besides those that are known, before they are forgotten."""
_REACH = 64
"""How far from its slot a remembered word may be."""

Cuts = tuple[Indices, Indices, Indices, Indices]
"""Of W words with N pieces: the number of pieces of each word, (W,), and of each piece in order its
id, where it begins and where it ends in its word, in characters, (N,)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entries:
    """The pieces of W numbered words, N in all, offsets counted from the start of the word."""

    firsts: Indices
    """(W,) Where the pieces of each word start."""
    counts: Indices
    """(W,) How many it has."""
    ids: Indices
    """(N,)"""
    begins: Indices
    """(N,)"""
    ends: Indices
    """(N,)"""
    buffers: tuple[Indices, ...] = ()
    """What these are the beginnings of, with room behind them; empty where there is none."""

    def __len__(self) -> int:
        return len(self.firsts)

    def extended(self, counts: Indices, ids: Indices, begins: Indices, ends: Indices) -> "Entries":
        """Return these words and more, whose numbers follow.

        They stand in the room behind these, if there is enough: what these were extended by before
        is lost.
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


def _appended(buffer: Indices, used: int, more: Indices) -> Indices:
    """Return a buffer in which more numbers follow those that are used, with as much room again."""
    size = used + len(more)
    if size > len(buffer):
        buffer = np.concatenate([buffer[:used], np.empty(2 * size - used, np.int64)])
    buffer[used:size] = more
    return buffer


class Lexicon:
    """Numbers words: first those that are known from the start, then those that were met.

    Args:
        known: the pieces of words that are known.
        keys: the keys of some of these.
        numbers: which of them each key is of.
        cut: works out the pieces of words, given their keys and numbers of letters.
    """

    def __init__(
        self,
        known: Entries,
        keys: Keys,
        numbers: Indices,
        cut: Callable[[Keys, Indices], Cuts],
    ) -> None:
        self._known = known
        self._known_keys = keys, numbers
        self._cut = cut
        self.forget()

    def forget(self) -> None:
        """Forget all words but those that are known."""
        nothing = np.zeros(0, np.int64)
        self.entries = self._known.extended(nothing, nothing, nothing, nothing)  # with room
        self._table = KeyTable(len(self._known) + MAX_REMEMBERED)
        self._table.add(*self._known_keys)

    def make_room(self, count: int) -> None:
        """See to it that so many words can be remembered; at most `MAX_REMEMBERED`."""
        if len(self.entries) + count > len(self._known) + MAX_REMEMBERED:
            self.forget()

    def numbers(self, symbols: NDArray[np.uint8], starts: Indices, sizes: Indices) -> Indices:
        """Return the number of each word of a text, under which `entries` has its pieces.

        Args:
            symbols: the letters of the text; see `keys_at`.
            starts: where each word starts. Shape (W,).
            sizes: its number of letters, 1 to 16. Shape (W,).
        """
        keys = keys_at(symbols, starts, sizes)
        numbers = self._table.find(keys)
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            one_of_each, kinds = distinct(keys.at(missing))
            new = missing[one_of_each]
            new_numbers = np.arange(len(self.entries), len(self.entries) + len(new))
            self.entries = self.entries.extended(*self._cut(keys.at(new), sizes[new]))
            self._table.add(keys.at(new), new_numbers, reach=_REACH)
            numbers[missing] = new_numbers[kinds]
        return numbers
