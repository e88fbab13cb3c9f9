"""Byte pairs of many words at once (`bpe.py` does one): each step merges one pair of every word.

Shape legend: W words, L = 16 bytes of a word. Arrays have a word in each column, so that the least
of a column is found for all of them by a few operations.
"""

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
from heedful.tokens.bpe import BytePairs
from heedful.tokens.keys import MAX_LETTERS, Keys, KeyTable
from heedful.tokens.lexicon import Cuts

_NEVER = 2**62
"""The rank of two pieces that are no pair."""
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
        both = np.array([*pairs.ranks], np.uint64).reshape(-1, 2)
        self._ranks = np.array([*pairs.ranks.values(), _NEVER], np.int64)
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
        rows = np.arange(MAX_LETTERS)[:, None]
        ids = np.where(rows < sizes, self._byte_ids[letters], -1)
        following = np.broadcast_to(rows + 1, ids.shape).copy()
        preceding = np.broadcast_to(np.arange(-1, MAX_LETTERS)[:, None], (len(ids) + 1, count))
        preceding = preceding.copy()
        # A pair's rank and place in one number: of equal ranks, the leftmost comes first.
        ranks = np.full_like(ids, _NEVER)
        pairs = letters[:-1].astype(np.int64) * 256 + letters[1:]
        ranks[:-1] = np.where(rows[1:] < sizes, self._byte_ranks[pairs], _NEVER)
        ranks = np.where(ranks < _NEVER, ranks * MAX_LETTERS + rows, _NEVER)
        words = np.arange(count)  # those that are not done, and the columns of `ranks`
        while words.size:
            best = ranks.min(axis=0)
            left = np.flatnonzero(best < _NEVER)
            if len(left) < len(words):
                words, ranks, best = words[left], ranks[:, left], best[left]
            rank, at = np.divmod(best, MAX_LETTERS)
            columns = np.arange(len(words))
            second = following[at, words]
            after, before = following[second, words], preceding[at, words]
            ids[at, words], ids[second, words] = self._joined[rank], -1
            following[at, words] = after
            preceding[after, words] = at
            ranks[second, columns] = _NEVER
            for first, other in ((at, after), (before, at)):
                inside = (first >= 0) & (other < sizes[words])
                of = words
                new = np.full(len(words), _NEVER)
                some = np.flatnonzero(inside)
                found = self._rank(ids[first[some], of[some]], ids[other[some], of[some]])
                new[some] = np.where(found < _NEVER, found * MAX_LETTERS + first[some], _NEVER)
                changed = np.flatnonzero(first >= 0)
                ranks[first[changed], columns[changed]] = new[changed]
        return ids, following

    def _rank(self, firsts: Indices, seconds: Indices) -> Indices:
        """Return the rank of pairs of ids, `_NEVER` of those that are none."""
        found = self._pairs.find(_pair_keys(firsts.astype(np.uint64), seconds.astype(np.uint64)))
        return self._ranks[found]

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
            firsts = np.where(is_blank, firsts, next_solid)
            lasts = np.where(is_blank, lasts, last_solid)
        return characters[words, firsts], characters[words, lasts] + 1


def _letters(keys: Keys) -> NDArray[np.uint8]:
    """Return the bytes of words. Shape (L, W)."""
    halves = np.stack([half.astype("<u8", copy=False) for half in keys], axis=1)
    return np.ascontiguousarray(halves.view(np.uint8).T)


def _pair_keys(firsts: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> Keys:
    return Keys(firsts << np.uint64(32) | seconds, np.zeros(len(firsts), np.uint64))
