"""Many words -> token ids by a unigram model, all at once by operations on arrays.

The cuts are those of `Unigram.cut`, for the same sums are compared in the same order. An operation
on arrays costs a microsecond however short they are, so this pays for a thousand words, not for
ten.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, as_list, bounds_of
from heedful.tokens.images import codes_of

if TYPE_CHECKING:
    from heedful.tokens.unigram import Cut

_OUTSIDE = sys.maxunicode + 1
"""What no token goes on with: it stands behind each word."""
_NO_NODE = -1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FREE = np.uint64(2**64 - 1)


Places = NDArray[np.int32]


class _Edges(NamedTuple):
    """E tokens as parts of words, or single characters that are no tokens. Shapes: (E,)."""

    starts: Places
    ends: Places
    nodes: Places
    """The node of the token; -1 where it is none."""


class _Tokens(NamedTuple):
    """The T tokens of W words, one word after the other."""

    ids: Indices
    """Shape (T,)."""
    ends: Indices
    """Where each ends in its word. Shape (T,)."""
    spans: Iterable[tuple[int, int]]
    """Which tokens are those of each word."""
    known: list[bool]
    """Whether all tokens of a word are."""


class _Children:
    """The children of the nodes of a trie, each found by its node and the letter that leads to it.

    Open addressing with linear probing, three quarters of the slots free: most of what is looked
    up is not there, and a free slot tells so at once.
    With keys of one number, kept in their slots, this takes half the time of a `KeyTable`.

    Args:
        steps: the node and letter of each child, as one number. Shape (N,).
        children: the child. Shape (N,).
    """

    def __init__(self, steps: NDArray[np.uint64], children: Indices) -> None:
        bits = max(4 * len(steps), 2).bit_length()
        self._shift, self._last_slot = np.uint64(64 - bits), (1 << bits) - 1
        self._steps = np.full(1 << bits, _FREE)
        self._children = np.full(1 << bits, _NO_NODE, np.int32)
        slots, left = self._slots(steps), np.arange(len(steps))
        while left.size:
            free = left[self._steps[slots[left]] == _FREE]
            self._steps[slots[free]] = steps[free]  # of several that want it, the last has it
            left = left[self._steps[slots[left]] != steps[left]]
            slots[left] = (slots[left] + 1) & self._last_slot
        self._children[slots] = children

    def find(self, steps: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the child of each step, -1 where there is none."""
        slots = self._slots(steps)
        kept = self._steps.take(slots)
        others = np.flatnonzero((kept != steps) & (kept != _FREE))
        while others.size:
            slots[others] = (slots[others] + 1) & self._last_slot
            kept[others] = now = self._steps.take(slots[others])
            others = others[(now != steps[others]) & (now != _FREE)]
        return np.where(kept == steps, self._children.take(slots), np.int32(_NO_NODE))

    def _slots(self, steps: NDArray[np.uint64]) -> Indices:
        return ((steps * _FACTOR) >> self._shift).view(np.int64)


class Trie:
    """Cuts words into tokens.

    A node is a beginning of a token, or all of it. A token whose score is minus infinity is none.

    Args:
        tokens: the tokens, each another, in the order of their ids.
        scores: the logarithms of their probabilities.
        unknown_id: see `Unigram`.
        unknown_score: the score of a character that is no token.
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
        # Letters are numbered, from 1; 0 is a character that is in no token.
        self._letters = np.zeros(_OUTSIDE + 1, np.uint32)
        self._letters[alphabet] = np.arange(1, len(alphabet) + 1)
        letters, self._size = self._letters[codes], np.uint64(len(alphabet) + 1)
        self._first = np.full(len(alphabet) + 1, _NO_NODE, np.int32)
        columns: list[tuple[NDArray[np.uint64], Indices]] = []
        nodes, count, depth = np.zeros(len(tokens), np.int64), 0, 0
        while (longer := np.flatnonzero(sizes > depth)).size:
            steps = self._steps(nodes[longer] if depth else 0, letters[starts[longer] + depth])
            distinct, which = np.unique(steps, return_inverse=True)
            children = count + np.arange(len(distinct))
            if depth:
                columns.append((distinct, children))
            else:
                self._first[distinct.astype(np.int64)] = children
            nodes[longer] = count + which
            count, depth = count + len(distinct), depth + 1
        empty = (np.zeros(0, np.uint64), np.zeros(0, np.int64))
        steps, children = map(np.concatenate, zip(empty, *columns, strict=True))
        self._children = _Children(steps, children)
        # One more, the last, is that of a character that is no token.
        self._ids = np.full(count + 1, -1)
        self._scores = np.full(count + 1, unknown_score)
        possible = np.flatnonzero((np.array(scores) > -np.inf) & (sizes > 0))
        self._ids[nodes[possible]] = possible
        self._scores[nodes[possible]] = np.array(scores)[possible]

    def ids(self, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return the ids of words, of those that are cut into known tokens.

        Args:
            words: the words, none of them empty.
        """
        tokens = self._cut(words)
        flat = as_list(tokens.ids)
        return {
            word: tuple(flat[start:stop])
            for word, (start, stop), known in zip(words, tokens.spans, tokens.known, strict=True)
            if known
        }

    def cuts(self, words: Sequence[str]) -> "dict[str, Cut]":
        """Return the tokens of the same words as `Unigram.cut` does."""
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
        first, behind = bounds[:-1], bounds[1:] - 1
        codes[behind] = _OUTSIDE
        came_from, nodes = self._best(self._edges(codes, behind), first, len(codes))
        owners, at = np.arange(len(words)), behind
        columns: list[tuple[Indices, Indices]] = []
        while owners.size:
            columns.append((owners, at))
            at = came_from[at].astype(np.int64)
            on = np.flatnonzero(at > first[owners])
            owners, at = owners[on], at[on]
        # Each word was followed from its end.
        owners, at = (np.concatenate(column[::-1]) for column in zip(*columns, strict=True))
        order = np.argsort(owners, kind="stable")
        owners, at = owners[order], at[order]
        ids = self._ids[nodes[at]]
        known = np.ones(len(words), bool)
        known[owners[(ids < 0) | (ids == self._unknown_id)]] = False
        return _Tokens(
            ids=np.maximum(ids, 0),
            ends=at - first[owners],
            spans=pairwise(bounds_of(np.bincount(owners, minlength=len(words))).tolist()),
            known=known.tolist(),
        )

    def _edges(self, codes: NDArray[np.uint32], behind: Indices) -> _Edges:
        """Return all tokens that are in words, and their characters that are no tokens."""
        letters = self._letters.take(codes)
        starts = np.delete(np.arange(len(codes), dtype=np.int32), behind)
        nodes, size = self._first.take(letters[starts]), 1
        unknown = starts[self._ids.take(nodes) < 0]
        columns = [(unknown, unknown + 1, np.full(len(unknown), _NO_NODE, np.int32))]
        while (goes_on := np.flatnonzero(nodes >= 0)).size:
            starts, nodes = starts[goes_on], nodes[goes_on]
            is_token = np.flatnonzero(self._ids.take(nodes) >= 0)
            at = starts[is_token]
            columns.append((at, at + size, nodes[is_token]))
            nodes = self._children.find(self._steps(nodes, letters[starts + size]))
            size += 1
        return _Edges(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _best(self, edges: _Edges, first: Indices, size: int) -> tuple[Places, Places]:
        """Return for each place in words where the best last token before it starts, and its node.

        Args:
            edges: the tokens.
            first: where each word starts.
            size: the number of places.
        """
        offsets = np.arange(size) - np.repeat(first, np.diff(first, append=size))
        # Numbers of 16 bits are sorted more than three times as fast, and few words are longer.
        small = np.int16 if offsets.max(initial=0) < 2**15 else np.int64
        offset = offsets.astype(small).take(edges.starts)
        order = np.argsort(offset, kind="stable")
        starts, ends, nodes = (column.take(order) for column in edges)
        scores = self._scores.take(nodes)
        best = np.full(size, -np.inf)
        best[first] = 0.0
        # Tokens that start so far in their word, all at once: no two end at the same place.
        for begin, end in pairwise(bounds_of(np.bincount(offset)).tolist()):
            totals = best.take(starts[begin:end])
            totals += scores[begin:end]
            at = ends[begin:end]
            best[at] = np.maximum(totals, best.take(at))
        # Of several that are best, the one that starts first, which is written last.
        is_best = np.flatnonzero(best.take(starts) + scores == best.take(ends))[::-1]
        came_from, came_by = np.zeros(size, np.int32), np.zeros(size, np.int32)
        came_from[ends[is_best]] = starts[is_best]
        came_by[ends[is_best]] = nodes[is_best]
        return came_from, came_by

    def _steps(
        self, nodes: NDArray[np.integer] | int, letters: NDArray[np.uint32]
    ) -> NDArray[np.uint64]:
        return np.asarray(nodes).astype(np.uint64) * self._size + letters
