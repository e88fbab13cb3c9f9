"""Byte pairs of many words at once (`bpe.py` does one): each step merges one pair of every word.

Shape legend: W words, L = 16 bytes of a word. Arrays have a word in each column, so that the least
of a column is found for all of them by a few operations.
"""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
from heedful.tokens.bpe import BytePairs
from heedful.tokens.keys import MAX_LETTERS, Keys, KeyTable
from heedful.tokens.lexicon import Cuts

_BITS = (MAX_LETTERS - 1).bit_length()
_ROWS = MAX_LETTERS + 1
_NEVER = 2**62
"""What stands for the rank of two pieces that are no pair, or more."""
_SPACE = ord(" ")


class ManyMerges:
    """Cuts words to tokens: of all pairs side by side, the one learnt first becomes one token.

    Args:
        pairs: the pairs.
        trim: whether spaces at the ends of a piece are left out of its slice.
    """

    def __init__(self, pairs: BytePairs, *, trim: bool) -> None:
        self._byte_ids = np.array(pairs.byte_ids, np.int64)
        self._joined = np.array(pairs.joined, np.int64)
        self._trim = trim
        both = np.fromiter(chain.from_iterable(pairs.ranks), np.uint64).reshape(-1, 2)
        self._ranks = np.array([*pairs.ranks.values(), _NEVER >> _BITS], np.int64) << _BITS
        self._pairs = KeyTable(len(both))
        self._pairs.add(_pair_keys(both[:, 0], both[:, 1]), np.arange(len(both)))
        every = np.arange(256)
        firsts, seconds = np.repeat(self._byte_ids[every], 256), np.tile(self._byte_ids[every], 256)
        self._byte_ranks = self._rank(firsts, seconds)

    def cut(self, keys: Keys, sizes: Indices) -> Cuts:
        """Return the pieces of words, given the keys of their bytes and how many these are."""
        letters = _letters(keys)
        ids, followers = self._merged(letters, sizes)
        is_piece = (ids >= 0).T  # (W, L)
        counts = is_piece.sum(axis=1)
        words, firsts = np.nonzero(is_piece)
        begins, ends = self._slices(letters.T, words, firsts, followers.T[words, firsts])
        return counts, ids.T[is_piece], begins, ends

    def _merged(self, letters: NDArray[np.uint8], sizes: Indices) -> tuple[Indices, Indices]:
        """Merge pairs until there are none.

        Returns:
            The id of the piece that begins with each byte, -1 where none does, and where the next
            piece begins. Both (L, W).
        """
        count = len(sizes)
        # One row more than there are bytes: what stands there is no piece, and joins with none.
        rows = np.arange(_ROWS)[:, None]
        ids = np.full((_ROWS, count), -1)
        ids[:-1] = np.where(rows[:-1] < sizes, self._byte_ids[letters], -1)
        following = np.broadcast_to(rows + 1, ids.shape).copy()
        preceding = np.broadcast_to((rows - 1) % _ROWS, ids.shape).copy()
        ranks = np.full_like(ids, _NEVER)
        pairs = letters[:-1].astype(np.int64) * 256 + letters[1:]
        ranks[:-2] = np.where(rows[1:-1] < sizes, self._byte_ranks[pairs] + rows[:-2], _NEVER)
        flat_ids, flat_following, flat_preceding = ids.ravel(), following.ravel(), preceding.ravel()
        words = np.arange(count)  # those that are not done: the columns of `ranks`
        while True:
            best = ranks.min(axis=0, initial=_NEVER)
            left = np.flatnonzero(best < _NEVER)
            if not left.size:
                return ids[:-1], following[:-1]
            if len(left) < len(words):
                words, ranks, best = words[left], ranks[:, left], best[left]
            rank, at = best >> _BITS, best & (MAX_LETTERS - 1)
            first_index = at * count + words
            second = flat_following[first_index]
            second_index = second * count + words
            after, before = flat_following[second_index], flat_preceding[first_index]
            flat_ids[first_index], flat_ids[second_index] = self._joined[rank], -1
            flat_following[first_index] = after
            flat_preceding[after * count + words] = at
            # The pairs that the new piece makes with its neighbours.
            firsts, seconds = np.concatenate([at, before]), np.concatenate([after, at])
            twice = np.concatenate([words, words])
            new = self._rank(flat_ids[firsts * count + twice], flat_ids[seconds * count + twice])
            columns = np.arange(len(words))
            ranks[second, columns] = _NEVER
            ranks[firsts, np.concatenate([columns, columns])] = new + firsts

    def _rank(self, firsts: Indices, seconds: Indices) -> Indices:
        """Return 16 times the rank of pairs of ids, `_NEVER` of those that are none.

        With the position of its first piece added, the least is the pair to merge: of equal ranks,
        the leftmost.
        """
        index = self._pairs.find(_pair_keys(firsts.astype(np.uint64), seconds.astype(np.uint64)))
        return self._ranks[index]

    def _slices(
        self, letters: NDArray[np.uint8], words: Indices, firsts: Indices, ends: Indices
    ) -> tuple[Indices, Indices]:
        """Return where pieces begin and end in their words, in characters.

        Args:
            letters: the bytes of each word. Shape (W, L).
            words: which word each piece is of. Shape (N,).
            firsts: its first byte. Shape (N,).
            ends: the byte behind its last one. Shape (N,).
        """
        characters = np.cumsum((letters & 0xC0) != 0x80, axis=1) - 1
        lasts = ends - 1
        if self._trim:
            bytes_ = np.arange(MAX_LETTERS)
            is_space = letters == _SPACE
            solid = np.where(is_space, MAX_LETTERS, bytes_)
            next_solid = np.minimum.accumulate(solid[:, ::-1], axis=1)[:, ::-1][words, firsts]
            last_solid = np.maximum.accumulate(np.where(is_space, -1, bytes_), axis=1)[words, lasts]
            is_blank = next_solid > lasts
            lasts = np.where(is_blank, lasts, last_solid)
            ends = characters[words, lasts] + 1
            begins = characters[words, np.minimum(next_solid, MAX_LETTERS - 1)]
            return np.where(is_blank, ends, begins), ends
        return characters[words, firsts], characters[words, lasts] + 1


def _letters(keys: Keys) -> NDArray[np.uint8]:
    """Return the bytes of words. Shape (L, W)."""
    halves = np.stack([half.astype("<u8", copy=False) for half in keys], axis=1)
    return np.ascontiguousarray(halves.view(np.uint8).T)


def _pair_keys(firsts: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> Keys:
    return Keys(firsts << np.uint64(32) | seconds, np.zeros(len(firsts), np.uint64))
