"""The best spans of a text, from the start and end scores of its tokens.

A long text is scored in overlapping windows. A span counts only in the window where its first token
has the most context (Devlin et al. 2019, the published SQuAD code), so no span counts twice.

Shapes: N tokens of the text, T tokens of a window, L maximum number of tokens of a span.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoredWindow:
    """The tokens of one window and their scores."""

    first: int
    """Index of the window's first token in the text."""
    offsets: NDArray[np.int32]
    """(T, 2) start and end of each token, in characters of the text."""
    start: NDArray[np.float32]
    """(T,) score of each token as the start of a span."""
    end: NDArray[np.float32]
    """(T,) score of each token as the end of a span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The slice ``text[start:end]``."""

    start: int
    end: int
    score: float
    """Start score of the first token plus end score of the last token."""


def most_context(windows: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the window in which each token has the most context.

    The context of a token is the smaller number of tokens on either side. In a tie the first window
    wins.

    Args:
        windows: index of the first token and number of tokens of each window. The windows cover
            the text.

    Shape:
        (N,) index of a window.
    """
    total = max(first + size for first, size in windows)
    best_context = np.full(total, -1)
    owner = np.zeros(total, dtype=np.int64)
    for number, (first, size) in enumerate(windows):
        positions = np.arange(size)
        context = np.minimum(positions, size - 1 - positions)
        better = context > best_context[first : first + size]
        best_context[first : first + size][better] = context[better]
        owner[first : first + size][better] = number
    return owner


def best_spans(windows: Sequence[ScoredWindow], *, count: int, max_tokens: int) -> list[Span]:
    """Return the spans of a text with the highest scores, best first.

    The search is exhaustive. Of several spans with the same characters, the best score counts. Ties
    go to the span that starts first, then to the shorter one.

    Args:
        windows: all windows of the text.
        count: maximum number of spans to return.
        max_tokens: maximum number of tokens in a span.
    """
    owner = most_context([(window.first, len(window.start)) for window in windows])
    best: dict[tuple[int, int], float] = {}
    for number, window in enumerate(windows):
        scores = _scores(window, max_tokens)  # (T, L)
        scores[owner[window.first :][: len(scores)] != number] = -np.inf
        for span, score in _best_slices(window, scores, count).items():
            best[span] = max(best.get(span, -np.inf), score)
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [Span(start=start, end=end, score=score) for (start, end), score in ranked]


def _scores(window: ScoredWindow, max_tokens: int) -> NDArray[np.float64]:
    """Return the score of each span, indexed by first token and length - 1.

    Spans that reach beyond the window score -inf.

    Shape:
        (T, L).
    """
    size = len(window.start)
    max_length = min(max_tokens, max(size, 1))
    ends = np.full(size + max_length, -np.inf)
    ends[:size] = window.end
    reachable = np.lib.stride_tricks.sliding_window_view(ends, max_length)[:size]
    scores: NDArray[np.float64] = window.start[:, None] + reachable
    return scores


def _best_slices(
    window: ScoredWindow, scores: NDArray[np.float64], count: int
) -> dict[tuple[int, int], float]:
    """Return at least ``count`` of the best slices of the text with their scores.

    Spans may be only whitespace, or the same slice as another span. So the search widens until it
    has enough distinct slices or has seen all spans.

    Args:
        window: the window.
        scores: see `_scores`.
        count: minimum number of slices.
    """
    num_spans = count
    while True:
        best: dict[tuple[int, int], float] = {}
        for first, extra_tokens in np.argwhere(scores >= _score_threshold(scores, num_spans)):
            tokens = window.offsets[first : first + extra_tokens + 1]
            tokens = tokens[tokens[:, 0] < tokens[:, 1]]  # some tokens are only a space
            if not len(tokens):
                continue
            # If combining marks were reordered, the first token may not start first.
            span = int(tokens[:, 0].min()), int(tokens[:, 1].max())
            best[span] = max(best.get(span, -np.inf), float(scores[first, extra_tokens]))
        if len(best) >= count or num_spans >= scores.size:
            return best
        num_spans *= 4


def _score_threshold(scores: NDArray[np.float64], count: int) -> float:
    """Return the ``count``-th highest score; the lowest finite number if there are not as many."""
    lowest = float(np.finfo(scores.dtype).min)
    if scores.size <= count:
        return lowest
    return max(float(np.partition(scores, -count, axis=None)[-count]), lowest)
