"""Short words as pairs of numbers, and a table that finds many of them at once.

A key is 16 bytes, one for each letter (`symbols.py`), filled up with zeros: the first eight in
``low``, the others in ``high``. It is the whole word, so that equal keys are equal words.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

MAX_LETTERS = 16
"""Letters of the longest word that has a key."""

_ONES = [(1 << 8 * size) - 1 for size in range(9)]
_LOW_MASKS = np.array([_ONES[min(size, 8)] for size in range(MAX_LETTERS + 1)], np.uint64)
_HIGH_MASKS = np.array([_ONES[max(size - 8, 0)] for size in range(MAX_LETTERS + 1)], np.uint64)
_FACTOR, _HIGH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class Keys(NamedTuple):
    """Keys of N words. Shapes: (N,)."""

    low: Words
    high: Words

    def at(self, indices: NDArray[np.int64]) -> "Keys":
        """Return some of them."""
        return Keys(self.low[indices], self.high[indices])

    def beginnings(self, sizes: NDArray[np.int64]) -> "Keys":
        """Return the keys of the first letters of each, for each number of letters.

        Args:
            sizes: the numbers of letters; a word that has fewer is taken whole. Shape (S,).

        Shape:
            (N * S,), those of a word one after the other.
        """
        low = self.low[:, None] & _LOW_MASKS[sizes]
        high = self.high[:, None] & _HIGH_MASKS[sizes]
        return Keys(low.ravel(), high.ravel())

    def after(self, sizes: NDArray[np.int64]) -> "Keys":
        """Return the keys of what follows the first letters, of which there is at least one."""
        bits = 8 * sizes.astype(np.uint64)
        word = np.uint64(64)
        # A shift by more than all bits gives 0, and 64 - 72 is such a number, too.
        low = (self.low >> bits) | (self.high << (word - bits)) | (self.high >> (bits - word))
        return Keys(low, self.high >> bits)


def keys_at(
    symbols: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Keys:
    """Return the keys of words of a text.

    Args:
        symbols: its letters; 16 bytes follow the start of each word.
        starts: where each word starts. Shape (N,).
        sizes: its number of letters, 1 to 16. Shape (N,).
    """
    # Eight letters from each place on, without a copy.
    eights = np.ndarray((len(symbols) - 7,), "<u8", buffer=symbols, strides=(1,))
    low = eights[starts].astype(np.uint64, copy=False) & _LOW_MASKS[sizes]
    high = np.zeros(len(starts), np.uint64)
    longer = np.flatnonzero(sizes > 8)
    high[longer] = eights[starts[longer] + 8] & _HIGH_MASKS[sizes[longer]]
    return Keys(low, high)


def distinct(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of one of each kind of keys, and for each key the number of its kind."""
    order = np.lexsort(keys)
    low, high = keys.at(order)
    is_new = np.ones(len(order), bool)
    is_new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    kinds = np.empty(len(order), np.int64)
    kinds[order] = np.cumsum(is_new) - 1
    return order[is_new], kinds


class KeyTable:
    """Numbers of keys.

    Open addressing with linear probing: a key is at the slot that its hash says, or at one of those
    that follow without a gap.

    Args:
        capacity: the most numbers.
    """

    def __init__(self, capacity: int) -> None:
        bits = (2 * capacity).bit_length()
        self._shift = np.uint64(64 - bits)
        self._last_slot = (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, np.int32)
        # One more than there are numbers: an empty slot, -1, leads to a key that no word has.
        self._low = np.full(capacity + 1, 2**64 - 1, np.uint64)
        self._high = np.zeros(capacity + 1, np.uint64)
        self._reach = 0

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the number of each key, -1 where it is not in the table."""
        slots = self._hashes(keys)
        numbers = self._slots.take(slots).astype(np.int64)
        wrong = np.flatnonzero(self._differ(numbers, keys))
        for _ in range(self._reach):
            wrong = wrong[numbers[wrong] >= 0]
            if not wrong.size:
                break
            slots[wrong] = (slots[wrong] + 1) & self._last_slot
            numbers[wrong] = self._slots[slots[wrong]]
            wrong = wrong[self._differ(numbers[wrong], keys.at(wrong))]
        numbers[wrong] = -1
        return numbers

    def add(self, keys: Keys, numbers: NDArray[np.int64], *, reach: int | None = None) -> None:
        """Put in keys, each new and only once.

        Args:
            keys: the keys.
            numbers: the number of each. Shape (N,).
            reach: how many slots from that of its hash a key may be. One for which there is no room
                is left out, so that words made for it cannot make searches long.
        """
        self._low[numbers], self._high[numbers] = keys
        slots = self._hashes(keys)
        left, steps = np.arange(len(slots)), 0
        while left.size and (reach is None or steps <= reach):
            free = left[self._slots[slots[left]] < 0]
            self._slots[slots[free]] = numbers[free]  # of several that want it, the last has it
            left = left[self._slots[slots[left]] != numbers[left]]
            slots[left] = (slots[left] + 1) & self._last_slot
            self._reach, steps = max(self._reach, steps), steps + 1

    def _hashes(self, keys: Keys) -> NDArray[np.int64]:
        mixed = (keys.low + keys.high * _HIGH_FACTOR) * _FACTOR
        return (mixed >> self._shift).view(np.int64)

    def _differ(self, numbers: NDArray[np.int64], keys: Keys) -> NDArray[np.bool_]:
        differ: NDArray[np.bool_] = self._low.take(numbers) != keys.low
        differ |= self._high.take(numbers) != keys.high
        return differ
