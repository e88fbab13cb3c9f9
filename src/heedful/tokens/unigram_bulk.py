"""Many words -> token ids by a unigram model, all at once by operations on arrays.

The cuts are those of `Unigram.cut`, for the same sums are compared in the same order. An operation
on arrays costs a microsecond however short they are, so this pays for a thousand words, not for
ten.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, as_list, bounds_of
from heedful.tokens.keys import Keys, KeyTable

if TYPE_CHECKING:
    from heedful.tokens.unigram import Cut

_BITS = np.uint64(21)
"""Bits of a code point."""
_OUTSIDE = 2**21 - 1
"""What no token goes on with: it stands behind each word."""
_NO_NODE = -1


class _Edges(NamedTuple):
    """E tokens as parts of words, or single characters that are no tokens. Shapes: (E,)."""

    starts: Indices
    ends: Indices
    nodes: Indices
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


class Trie:
    """Cuts words into tokens.

    A node is a beginning of a token, or all of it; node 0 is the empty one.

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
        codes, starts = _codes("".join(tokens)), bounds_of(sizes)[:-1]
        self._children = KeyTable(int(sizes.sum()) + 1)
        nodes, count, depth = np.zeros(len(tokens), np.int64), 1, 0
        while (longer := np.flatnonzero(sizes > depth)).size:
            steps = _steps(nodes[longer], codes[starts[longer] + depth])
            children, which = np.unique(steps, return_inverse=True)
            self._children.add(_keys(children), count + np.arange(len(children)))
            nodes[longer] = count + which
            count, depth = count + len(children), depth + 1
        # One more, the last, is that of a character that is no token.
        self._ids = np.full(count + 1, -1)
        self._ids[nodes] = np.arange(len(tokens))
        self._scores = np.full(count + 1, unknown_score)
        self._scores[nodes] = scores

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
        codes = _codes("\0".join((*words, "")))
        first, behind = bounds[:-1], bounds[1:] - 1
        codes[behind] = _OUTSIDE
        came_from, nodes = self._best(self._edges(codes, behind), first, len(codes))
        owners, at, columns = np.arange(len(words)), behind, []
        while owners.size:
            columns.append((owners, at))
            at = came_from[at]
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
        starts = np.delete(np.arange(len(codes)), behind)
        nodes, size = np.zeros(len(starts), np.int64), 0
        columns: list[tuple[Indices, Indices, Indices]] = []
        while starts.size:
            nodes = self._children.find(_keys(_steps(nodes, codes[starts + size])))
            size += 1
            if size == 1:
                unknown = starts[self._ids[nodes] < 0]
                columns.append((unknown, unknown + 1, np.full(len(unknown), _NO_NODE)))
            goes_on = nodes >= 0
            starts, nodes = starts[goes_on], nodes[goes_on]
            is_token = self._ids[nodes] >= 0
            at = starts[is_token]
            columns.append((at, at + size, nodes[is_token]))
        return _Edges(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _best(self, edges: _Edges, first: Indices, size: int) -> tuple[Indices, Indices]:
        """Return for each place in words where the best last token before it starts, and its node.

        Args:
            edges: the tokens.
            first: where each word starts.
            size: the number of places.
        """
        offsets = np.arange(size) - np.repeat(first, np.diff(first, append=size))
        offset = offsets[edges.starts].astype(np.int16)
        order = np.argsort(offset, kind="stable")
        starts, ends, nodes = (column[order] for column in edges)
        scores = self._scores[nodes]
        best = np.full(size, -np.inf)
        best[first] = 0.0
        came_from, came_by = np.zeros(size, np.int64), np.zeros(size, np.int64)
        # Tokens that start so far in their word, all at once: no two end at the same place.
        for begin, end in pairwise(bounds_of(np.bincount(offset)).tolist()):
            these = slice(begin, end)
            totals = best[starts[these]] + scores[these]
            better = np.flatnonzero(totals > best[ends[these]])
            targets = ends[these][better]
            best[targets] = totals[better]
            came_from[targets] = starts[these][better]
            came_by[targets] = nodes[these][better]
        return came_from, came_by


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).copy()


def _steps(nodes: Indices, codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return (nodes.astype(np.uint64) << _BITS) | codes


def _keys(steps: NDArray[np.uint64]) -> Keys:
    return Keys(steps, np.zeros_like(steps))
