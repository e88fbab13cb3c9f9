"""Short words as pairs of integers, and a hash table with vectorized look-up.

A key is 16 bytes, one for each letter (`symbols.py`), padded with zeros. ``low`` holds the first
eight bytes, ``high`` the others. A key encodes the whole word, so equal keys mean equal words.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

MAX_KEY_BYTES = 16
"""Letters of the longest word that has a key."""

_ONES = [(1 << 8 * size) - 1 for size in range(9)]
_LOW_MASKS = np.array([_ONES[min(size, 8)] for size in range(MAX_KEY_BYTES + 1)], np.uint64)
_HIGH_MASKS = np.array([_ONES[max(size - 8, 0)] for size in range(MAX_KEY_BYTES + 1)], np.uint64)
_FACTOR, _HIGH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class Keys(NamedTuple):
    """Keys of N words. Shapes: (N,)."""

    low: Words
    high: Words

    def at(self, indices: NDArray[np.int64]) -> "Keys":
        """Return the keys at the given indices."""
        return Keys(self.low[indices], self.high[indices])

    def prefixes(self, sizes: NDArray[np.int64]) -> "Keys":
        """Return the keys of the prefixes of each word, for each of the given lengths.

        Args:
            sizes: prefix lengths in letters. A shorter word counts as its own prefix. Shape (S,).

        Shape:
            (N * S,), with the prefixes of a word next to each other.
        """
        low = self.low[:, None] & _LOW_MASKS[sizes]
        high = self.high[:, None] & _HIGH_MASKS[sizes]
        return Keys(low.ravel(), high.ravel())

    def after(self, sizes: NDArray[np.int64]) -> "Keys":
        """Return the keys of the words without their first ``sizes`` letters, at least one each."""
        bits = 8 * sizes.astype(np.uint64)
        word = np.uint64(64)
        # A shift by 64 bits or more gives 0, and unsigned 64 - 72 wraps to such a shift.
        low = (self.low >> bits) | (self.high << (word - bits)) | (self.high >> (bits - word))
        return Keys(low, self.high >> bits)


def keys_at(
    symbols: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Keys:
    """Return the keys of words of a text.

    Args:
        symbols: the letters of the text. At least 16 bytes follow the start of each word.
        starts: start of each word. Shape (N,).
        sizes: number of letters of each word, 1 to 16. Shape (N,).
    """
    # A view of the eight letters at each position.
    windows = np.ndarray((len(symbols) - 7,), "<u8", buffer=symbols, strides=(1,))
    low = windows[starts].astype(np.uint64, copy=False) & _LOW_MASKS[sizes]
    high = np.zeros(len(starts), np.uint64)
    longer = np.flatnonzero(sizes > 8)
    high[longer] = windows[starts[longer] + 8] & _HIGH_MASKS[sizes[longer]]
    return Keys(low, high)


def distinct(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of one key per distinct value, and the group number of each key.

    Groups are numbered in the order of the returned indices.
    """
    order = np.lexsort(keys)
    low, high = keys.at(order)
    is_new = np.ones(len(order), bool)
    is_new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    group_ids = np.empty(len(order), np.int64)
    group_ids[order] = np.cumsum(is_new) - 1
    return order[is_new], group_ids


class KeyTable:
    """A hash table from keys to numbers.

    It uses open addressing with linear probing: a key is in the slot of its hash, or in one of the
    slots that follow without a gap.

    Args:
        capacity: numbers must be below this.
    """

    def __init__(self, capacity: int) -> None:
        bits = (2 * capacity).bit_length()
        self._shift = np.uint64(64 - bits)
        self._last_slot = (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, np.int32)
        # The extra last entry is for empty slots: index -1 leads to a key that no word has.
        self._low = np.full(capacity + 1, 2**64 - 1, np.uint64)
        self._high = np.zeros(capacity + 1, np.uint64)
        self._reach = 0

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the number of each key, or -1 if it is not in the table."""
        slots = self._hashes(keys)
        numbers = self._slots.take(slots).astype(np.int64)
        mismatched = np.flatnonzero(self._differ(numbers, keys))
        for _ in range(self._reach):
            mismatched = mismatched[numbers[mismatched] >= 0]
            if not mismatched.size:
                break
            slots[mismatched] = (slots[mismatched] + 1) & self._last_slot
            numbers[mismatched] = self._slots[slots[mismatched]]
            mismatched = mismatched[self._differ(numbers[mismatched], keys.at(mismatched))]
        numbers[mismatched] = -1
        return numbers

    def add(self, keys: Keys, numbers: NDArray[np.int64], *, reach: int | None = None) -> None:
        """Insert distinct new keys.

        Args:
            keys: the keys.
            numbers: the number of each key. Shape (N,).
            reach: maximum distance of a key from the slot of its hash. A key that does not fit is
                left out, so that adversarial words cannot make searches long.
        """
        self._low[numbers], self._high[numbers] = keys
        slots = self._hashes(keys)
        pending, steps = np.arange(len(slots)), 0
        while pending.size and (reach is None or steps <= reach):
            free = pending[self._slots[slots[pending]] < 0]
            self._slots[slots[free]] = numbers[free]  # of several candidates, the last one wins
            pending = pending[self._slots[slots[pending]] != numbers[pending]]
            slots[pending] = (slots[pending] + 1) & self._last_slot
            self._reach, steps = max(self._reach, steps), steps + 1

    def _hashes(self, keys: Keys) -> NDArray[np.int64]:
        mixed = (keys.low + keys.high * _HIGH_FACTOR) * _FACTOR
        return (mixed >> self._shift).view(np.int64)

    def _differ(self, numbers: NDArray[np.int64], keys: Keys) -> NDArray[np.bool_]:
        differ: NDArray[np.bool_] = self._low.take(numbers) != keys.low
        differ |= self._high.take(numbers) != keys.high
        return differ
