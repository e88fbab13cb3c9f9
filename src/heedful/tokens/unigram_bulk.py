"""Vectorized unigram segmentation of many words.

The results equal `Unigram.segment`, since the same sums are compared in the same order. Every array
operation costs at least a microsecond. So this pays off for a thousand words, not for ten.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, as_list, bounds_of
from heedful.tokens.replacements import codes_of

if TYPE_CHECKING:
    from heedful.tokens.unigram import Segmentation

_OUTSIDE = sys.maxunicode + 1
"""A sentinel after each word, which continues no token."""
_NO_NODE = -1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FREE = np.uint64(2**64 - 1)


Places = NDArray[np.int32]


class _Edges(NamedTuple):
    """E candidate tokens within words, or single unknown characters. Shapes: (E,)."""

    starts: Places
    ends: Places
    nodes: Places
    """The trie node of each token; -1 for an unknown character."""


class _Tokens(NamedTuple):
    """The T tokens of W words, concatenated word by word."""

    ids: Indices
    """Token ids. Shape (T,)."""
    ends: Indices
    """End of each token in its word. Shape (T,)."""
    spans: Iterable[tuple[int, int]]
    """The range of tokens of each word."""
    known: list[bool]
    """Whether all tokens of each word are known."""


class _Children:
    """A hash table of trie edges: (parent node, letter) -> child node.

    It uses open addressing with linear probing, with three quarters of the slots free. Most keys
    are missing, and a free slot ends the search immediately. Keys are single numbers, stored in
    their slots, so this takes half the time of a `KeyTable`.

    Args:
        steps: the parent node and letter of each child, as one number. Shape (N,).
        children: the child nodes. Shape (N,).
    """

    def __init__(self, steps: NDArray[np.uint64], children: Indices) -> None:
        bits = max(4 * len(steps), 2).bit_length()
        self._shift, self._last_slot = np.uint64(64 - bits), (1 << bits) - 1
        self._steps = np.full(1 << bits, _FREE)
        self._children = np.full(1 << bits, _NO_NODE, np.int32)
        slots, pending = self._slots(steps), np.arange(len(steps))
        while pending.size:
            free = pending[self._steps[slots[pending]] == _FREE]
            self._steps[slots[free]] = steps[free]  # of several candidates, the last one wins
            pending = pending[self._steps[slots[pending]] != steps[pending]]
            slots[pending] = (slots[pending] + 1) & self._last_slot
        self._children[slots] = children

    def find(self, steps: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the child of each step, or -1."""
        slots = self._slots(steps)
        found = self._steps.take(slots)
        others = np.flatnonzero((found != steps) & (found != _FREE))
        while others.size:
            slots[others] = (slots[others] + 1) & self._last_slot
            found[others] = next_found = self._steps.take(slots[others])
            others = others[(next_found != steps[others]) & (next_found != _FREE)]
        return np.where(found == steps, self._children.take(slots), np.int32(_NO_NODE))

    def _slots(self, steps: NDArray[np.uint64]) -> Indices:
        return ((steps * _FACTOR) >> self._shift).view(np.int64)


class Trie:
    """Segments words into tokens.

    A node is a prefix of a token, or a whole token. Tokens with a score of minus infinity are
    ignored.

    Args:
        tokens: distinct tokens, in the order of their ids.
        scores: the log-probabilities of the tokens.
        unknown_id: see `Unigram`.
        unknown_score: the score of an unknown character.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Sequence[float],
        *,
        unknown_id: int,
        unknown_score: float,
    ) -> None:
        self._unknown_id = unknown_id
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        codes, starts = codes_of("".join(tokens)), bounds_of(sizes)[:-1]
        alphabet = np.unique(codes)
        # Letters are numbered from 1; 0 is a character that occurs in no token.
        self._letters = np.zeros(_OUTSIDE + 1, np.uint32)
        self._letters[alphabet] = np.arange(1, len(alphabet) + 1)
        letters, self._size = self._letters[codes], np.uint64(len(alphabet) + 1)
        self._first = np.full(len(alphabet) + 1, _NO_NODE, np.int32)
        columns: list[tuple[NDArray[np.uint64], Indices]] = []
        nodes, count, depth = np.zeros(len(tokens), np.int64), 0, 0
        while (unfinished := np.flatnonzero(sizes > depth)).size:
            steps = self._steps(
                nodes[unfinished] if depth else 0, letters[starts[unfinished] + depth]
            )
            distinct, child_index = np.unique(steps, return_inverse=True)
            children = count + np.arange(len(distinct))
            if depth:
                columns.append((distinct, children))
            else:
                self._first[distinct.astype(np.int64)] = children
            nodes[unfinished] = count + child_index
            count, depth = count + len(distinct), depth + 1
        empty = (np.zeros(0, np.uint64), np.zeros(0, np.int64))
        steps, children = map(np.concatenate, zip(empty, *columns, strict=True))
        self._children = _Children(steps, children)
        # The extra last entry is for an unknown character.
        self._ids = np.full(count + 1, -1)
        self._scores = np.full(count + 1, unknown_score)
        valid = np.flatnonzero((np.array(scores) > -np.inf) & (sizes > 0))
        self._ids[nodes[valid]] = valid
        self._scores[nodes[valid]] = np.array(scores)[valid]

    def ids(self, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return the token ids of each word whose tokens are all known.

        Args:
            words: non-empty words.
        """
        tokens = self._cut(words)
        flat = as_list(tokens.ids)
        return {
            word: tuple(flat[start:stop])
            for word, (start, stop), known in zip(words, tokens.spans, tokens.known, strict=True)
            if known
        }

    def cuts(self, words: Sequence[str]) -> "dict[str, Segmentation]":
        """Return the tokens of each word whose tokens are all known, like `Unigram.segment`."""
        tokens = self._cut(words)
        flat = list(zip(as_list(tokens.ids), as_list(tokens.ends), strict=True))
        return {
            word: flat[start:stop]
            for word, (start, stop), known in zip(words, tokens.spans, tokens.known, strict=True)
            if known
        }

    def _cut(self, words: Sequence[str]) -> "_Tokens":
        bounds = bounds_of(np.fromiter(map(len, words), np.int64, len(words)) + 1)
        codes = codes_of("\0".join((*words, ""))).copy()
        first, word_ends = bounds[:-1], bounds[1:] - 1
        codes[word_ends] = _OUTSIDE
        best_starts, nodes = self._best(self._edges(codes, word_ends), first, len(codes))
        owners, positions = np.arange(len(words)), word_ends
        columns: list[tuple[Indices, Indices]] = []
        while owners.size:
            columns.append((owners, positions))
            positions = best_starts[positions].astype(np.int64)
            unfinished = np.flatnonzero(positions > first[owners])
            owners, positions = owners[unfinished], positions[unfinished]
        # The loop followed each word backward from its end.
        owners, positions = (np.concatenate(column[::-1]) for column in zip(*columns, strict=True))
        order = np.argsort(owners, kind="stable")
        owners, positions = owners[order], positions[order]
        ids = self._ids[nodes[positions]]
        known = np.ones(len(words), bool)
        known[owners[(ids < 0) | (ids == self._unknown_id)]] = False
        return _Tokens(
            ids=np.maximum(ids, 0),
            ends=positions - first[owners],
            spans=pairwise(bounds_of(np.bincount(owners, minlength=len(words))).tolist()),
            known=known.tolist(),
        )

    def _edges(self, codes: NDArray[np.uint32], word_ends: Indices) -> _Edges:
        """Return all tokens that occur in the words, and the unknown characters."""
        letters = self._letters.take(codes)
        starts = np.delete(np.arange(len(codes), dtype=np.int32), word_ends)
        nodes, size = self._first.take(letters[starts]), 1
        unknown = starts[self._ids.take(nodes) < 0]
        columns = [(unknown, unknown + 1, np.full(len(unknown), _NO_NODE, np.int32))]
        while (continuing := np.flatnonzero(nodes >= 0)).size:
            starts, nodes = starts[continuing], nodes[continuing]
            is_token = np.flatnonzero(self._ids.take(nodes) >= 0)
            token_starts = starts[is_token]
            columns.append((token_starts, token_starts + size, nodes[is_token]))
            nodes = self._children.find(self._steps(nodes, letters[starts + size]))
            size += 1
        return _Edges(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _best(self, edges: _Edges, first: Indices, size: int) -> tuple[Places, Places]:
        """Return the start and the node of the best token that ends at each position.

        Args:
            edges: the tokens.
            first: start of each word.
            size: the number of positions.
        """
        offsets = np.arange(size) - np.repeat(first, np.diff(first, append=size))
        # Sorting 16-bit integers is over three times as fast, and words are rarely longer.
        offset_dtype = np.int16 if offsets.max(initial=0) < 2**15 else np.int64
        offset = offsets.astype(offset_dtype).take(edges.starts)
        order = np.argsort(offset, kind="stable")
        starts, ends, nodes = (column.take(order) for column in edges)
        scores = self._scores.take(nodes)
        best = np.full(size, -np.inf)
        best[first] = 0.0
        # Process all tokens with the same offset in their word together: all ends are distinct.
        for begin, end in pairwise(bounds_of(np.bincount(offset)).tolist()):
            totals = best.take(starts[begin:end])
            totals += scores[begin:end]
            edge_ends = ends[begin:end]
            best[edge_ends] = np.maximum(totals, best.take(edge_ends))
        # Of several best tokens, the one that starts first wins, because it is written last.
        is_best = np.flatnonzero(best.take(starts) + scores == best.take(ends))[::-1]
        best_starts, best_nodes = np.zeros(size, np.int32), np.zeros(size, np.int32)
        best_starts[ends[is_best]] = starts[is_best]
        best_nodes[ends[is_best]] = nodes[is_best]
        return best_starts, best_nodes

    def _steps(
        self, nodes: NDArray[np.integer] | int, letters: NDArray[np.uint32]
    ) -> NDArray[np.uint64]:
        return np.asarray(nodes).astype(np.uint64) * self._size + letters
