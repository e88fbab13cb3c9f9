"""Spans of a text, from scores of each token to be the first and the last of one.

A long text is scored in windows that overlap. A span counts only in the window where its first
token has the most context (Devlin et al. 2019, the published SQuAD code), so none is seen twice.

Shapes: N tokens of the text, T tokens of a window, L tokens of the longest span.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoredWindow:
    """The tokens of one window, with their scores."""

    first: int
    """Place of its first token among the text's."""
    offsets: NDArray[np.int32]
    """(T, 2) start and end, in characters of the text, of each token."""
    start: NDArray[np.float32]
    """(T,) how well a span starts with each token."""
    end: NDArray[np.float32]
    """(T,) how well a span ends with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The slice ``text[start:end]``."""

    start: int
    end: int
    score: float
    """Sum of the scores of its first and its last token."""


def most_context(windows: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Tell for each token in which window it has the most tokens on both sides; the first of those.

    Args:
        windows: the place of the first token, and the number of tokens, of each. They hold every
            token of the text.

    Shape:
        (N,) index of a window.
    """
    total = max(first + size for first, size in windows)
    most = np.full(total, -1)
    owner = np.zeros(total, dtype=np.int64)
    for number, (first, size) in enumerate(windows):
        places = np.arange(size)
        context = np.minimum(places, size - 1 - places)
        more = context > most[first : first + size]
        most[first : first + size][more] = context[more]
        owner[first : first + size][more] = number
    return owner


def best_spans(windows: Sequence[ScoredWindow], *, count: int, max_tokens: int) -> list[Span]:
    """Return the spans of a text with the highest scores, best first.

    Every span is looked at, so that these are the best there are. Of spans that are equal in
    characters the better counts; of equally good ones, the one that starts first, then the shorter.

    Args:
        windows: all windows of the text.
        count: the most spans to return.
        max_tokens: the most tokens of a span.
    """
    owner = most_context([(window.first, len(window.start)) for window in windows])
    found: dict[tuple[int, int], float] = {}
    for number, window in enumerate(windows):
        scores = _scores(window, max_tokens)  # (T, L)
        scores[owner[window.first :][: len(scores)] != number] = -np.inf
        for first, more in np.argwhere(scores >= _least(scores, count)):
            tokens = window.offsets[first : first + more + 1]
            # Of letters whose marks were put in order, the first token need not start first.
            place = int(tokens[:, 0].min()), int(tokens[:, 1].max())
            found[place] = max(found.get(place, -np.inf), float(scores[first, more]))
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [Span(start=start, end=end, score=score) for (start, end), score in ranked]


def _scores(window: ScoredWindow, max_tokens: int) -> NDArray[np.float64]:
    """Score each span by its first token and its length less one; what leaves the window, -inf.

    Shape:
        (T, L).
    """
    size = len(window.start)
    longest = min(max_tokens, max(size, 1))
    ends = np.full(size + longest, -np.inf)
    ends[:size] = window.end
    reachable = np.lib.stride_tricks.sliding_window_view(ends, longest)[:size]
    scores: NDArray[np.float64] = window.start[:, None] + reachable
    return scores


def _least(scores: NDArray[np.float64], count: int) -> float:
    """Return the score of the last of the best; of any span, where there are no more of them."""
    lowest = float(np.finfo(scores.dtype).min)
    if scores.size <= count:
        return lowest
    return max(float(np.partition(scores, -count, axis=None)[-count]), lowest)
