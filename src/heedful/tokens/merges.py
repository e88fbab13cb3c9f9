"""Vectorized byte-pair encoding of many words: each step merges one pair in every word.

`bpe.py` handles single words.

Shape legend: W words, L = 16 bytes of a word. Each column of an array is a word, so that a few
operations find the minimum of every column.
"""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
from heedful.tokens.bpe import BytePairs
from heedful.tokens.lexicon import WordPieces
from heedful.tokens.word_keys import MAX_KEY_BYTES, Keys, KeyTable

_BITS = (MAX_KEY_BYTES - 1).bit_length()
_ROWS = MAX_KEY_BYTES + 1
_NEVER = 2**62
"""The rank of two pieces that do not merge; larger values mean the same."""
_SPACE = ord(" ")


class VectorizedMerges:
    """Splits words into tokens: repeatedly merges the adjacent pair with the lowest rank.

    Args:
        pairs: the pairs.
        trim: whether offsets exclude spaces at both ends of a piece.
    """

    def __init__(self, pairs: BytePairs, *, trim: bool) -> None:
        self._byte_ids = np.array(pairs.byte_ids, np.int64)
        self._joined = np.array(pairs.joined, np.int64)
        self._trim = trim
        pair_ids = np.fromiter(chain.from_iterable(pairs.ranks), np.uint64).reshape(-1, 2)
        self._ranks = np.array([*pairs.ranks.values(), _NEVER >> _BITS], np.int64) << _BITS
        self._pairs = KeyTable(len(pair_ids))
        self._pairs.add(_pair_keys(pair_ids[:, 0], pair_ids[:, 1]), np.arange(len(pair_ids)))
        codes = np.arange(256)
        firsts, seconds = np.repeat(self._byte_ids[codes], 256), np.tile(self._byte_ids[codes], 256)
        self._byte_ranks = self._rank(firsts, seconds)

    def cut(self, keys: Keys, sizes: Indices) -> WordPieces:
        """Return the pieces of words, given the keys of their bytes and their lengths in bytes."""
        letters = _letters(keys)
        ids, followers = self._merged(letters, sizes)
        is_piece = (ids >= 0).T  # (W, L)
        counts = is_piece.sum(axis=1)
        words, firsts = np.nonzero(is_piece)
        begins, ends = self._slices(letters.T, words, firsts, followers.T[words, firsts])
        return counts, ids.T[is_piece], begins, ends

    def _merged(self, letters: NDArray[np.uint8], sizes: Indices) -> tuple[Indices, Indices]:
        """Merge pairs until none are left.

        Returns:
            The id of the piece that begins at each byte, or -1, and the start of the next piece.
            Both have shape (L, W).
        """
        num_words = len(sizes)
        # The extra row after the bytes is a sentinel: no piece, which never merges.
        rows = np.arange(_ROWS)[:, None]
        ids = np.full((_ROWS, num_words), -1)
        ids[:-1] = np.where(rows[:-1] < sizes, self._byte_ids[letters], -1)
        following = np.broadcast_to(rows + 1, ids.shape).copy()
        preceding = np.broadcast_to((rows - 1) % _ROWS, ids.shape).copy()
        ranks = np.full_like(ids, _NEVER)
        pairs = letters[:-1].astype(np.int64) * 256 + letters[1:]
        ranks[:-2] = np.where(rows[1:-1] < sizes, self._byte_ranks[pairs] + rows[:-2], _NEVER)
        flat_ids, flat_following, flat_preceding = ids.ravel(), following.ravel(), preceding.ravel()
        words = np.arange(num_words)  # unfinished words: the columns of `ranks`
        while True:
            best = ranks.min(axis=0, initial=_NEVER)
            unfinished = np.flatnonzero(best < _NEVER)
            if not unfinished.size:
                return ids[:-1], following[:-1]
            if len(unfinished) < len(words):
                words, ranks, best = words[unfinished], ranks[:, unfinished], best[unfinished]
            rank, at = best >> _BITS, best & (MAX_KEY_BYTES - 1)
            first_index = at * num_words + words
            second = flat_following[first_index]
            second_index = second * num_words + words
            after, before = flat_following[second_index], flat_preceding[first_index]
            flat_ids[first_index], flat_ids[second_index] = self._joined[rank], -1
            flat_following[first_index] = after
            flat_preceding[after * num_words + words] = at
            # The pairs of the new piece with its neighbours.
            firsts, seconds = np.concatenate([at, before]), np.concatenate([after, at])
            words_twice = np.concatenate([words, words])
            new_ranks = self._rank(
                flat_ids[firsts * num_words + words_twice],
                flat_ids[seconds * num_words + words_twice],
            )
            columns = np.arange(len(words))
            ranks[second, columns] = _NEVER
            ranks[firsts, np.concatenate([columns, columns])] = new_ranks + firsts

    def _rank(self, firsts: Indices, seconds: Indices) -> Indices:
        """Return 16 times the rank of each pair of ids, or `_NEVER` if they do not merge.

        Adding the position of the first piece makes the minimum the pair to merge. Of equal ranks,
        that is the leftmost.
        """
        index = self._pairs.find(_pair_keys(firsts.astype(np.uint64), seconds.astype(np.uint64)))
        return self._ranks[index]

    def _slices(
        self, letters: NDArray[np.uint8], words: Indices, firsts: Indices, ends: Indices
    ) -> tuple[Indices, Indices]:
        """Return the start and end of each piece in its word, in characters.

        Args:
            letters: the bytes of each word. Shape (W, L).
            words: the index of each piece's word. Shape (N,).
            firsts: the index of each piece's first byte. Shape (N,).
            ends: the index after each piece's last byte. Shape (N,).
        """
        characters = np.cumsum((letters & 0xC0) != 0x80, axis=1) - 1
        lasts = ends - 1
        if self._trim:
            bytes_ = np.arange(MAX_KEY_BYTES)
            is_space = letters == _SPACE
            kept = np.where(is_space, MAX_KEY_BYTES, bytes_)
            next_kept = np.minimum.accumulate(kept[:, ::-1], axis=1)[:, ::-1][words, firsts]
            last_kept = np.maximum.accumulate(np.where(is_space, -1, bytes_), axis=1)[words, lasts]
            is_blank = next_kept > lasts
            lasts = np.where(is_blank, lasts, last_kept)
            ends = characters[words, lasts] + 1
            begins = characters[words, np.minimum(next_kept, MAX_KEY_BYTES - 1)]
            return np.where(is_blank, ends, begins), ends
        return characters[words, firsts], characters[words, lasts] + 1


def _letters(keys: Keys) -> NDArray[np.uint8]:
    """Return the bytes of words. Shape (L, W)."""
    halves = np.stack([half.astype("<u8", copy=False) for half in keys], axis=1)
    return np.ascontiguousarray(halves.view(np.uint8).T)


def _pair_keys(firsts: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> Keys:
    return Keys(firsts << np.uint64(32) | seconds, np.zeros(len(firsts), np.uint64))
