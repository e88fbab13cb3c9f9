"""The best spans of a text, from the scores of each token as the first and as the last of one.

A long text is scored in overlapping windows. A span counts only in the window where its first token
has the most context (Devlin et al. 2019, the published SQuAD code), so no span counts twice.

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
    """Index of its first token in the text."""
    offsets: NDArray[np.int32]
    """(T, 2) start and end of each token, in characters of the text."""
    start: NDArray[np.float32]
    """(T,) scores of spans to start with each token."""
    end: NDArray[np.float32]
    """(T,) scores of spans to end with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The slice ``text[start:end]``."""

    start: int
    end: int
    score: float
    """The sum of the scores of its first and its last token."""


def most_context(windows: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return for each token the window where the fewer of the tokens on its two sides are the most.

    Args:
        windows: for each window the index of its first token and its number of tokens. Together
            they cover the text. In a tie the first window counts.

    Shape:
        (N,) index of a window.
    """
    total = max(first + size for first, size in windows)
    most = np.full(total, -1)
    owner = np.zeros(total, dtype=np.int64)
    for number, (first, size) in enumerate(windows):
        positions = np.arange(size)
        context = np.minimum(positions, size - 1 - positions)
        more = context > most[first : first + size]
        most[first : first + size][more] = context[more]
        owner[first : first + size][more] = number
    return owner


def best_spans(windows: Sequence[ScoredWindow], *, count: int, max_tokens: int) -> list[Span]:
    """Return the spans of a text with the highest scores, best first.

    All spans are compared. Of spans with the same characters the better one counts; of equal scores
    the span that starts first, then the shorter one.

    Args:
        windows: all windows of the text.
        count: the most spans to return.
        max_tokens: the most tokens of a span.
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
    """Score each span, by its first token and its length less one; -inf beyond the window.

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


def _best_slices(
    window: ScoredWindow, scores: NDArray[np.float64], count: int
) -> dict[tuple[int, int], float]:
    """Return at least ``count`` of the best slices of the text, if there are as many, with scores.

    Spans may be nothing but space, or the same slice as others: more are looked at until there are
    enough that differ.

    Args:
        window: what is scored.
        scores: see `_scores`.
        count: how many.
    """
    wanted = count
    while True:
        best: dict[tuple[int, int], float] = {}
        for first, more in np.argwhere(scores >= _least(scores, wanted)):
            tokens = window.offsets[first : first + more + 1]
            tokens = tokens[tokens[:, 0] < tokens[:, 1]]  # some are nothing but a space
            if not len(tokens):
                continue
            # Where marks of a letter were reordered, the first token may not start first.
            span = int(tokens[:, 0].min()), int(tokens[:, 1].max())
            best[span] = max(best.get(span, -np.inf), float(scores[first, more]))
        if len(best) >= count or wanted >= scores.size:
            return best
        wanted *= 4


def _least(scores: NDArray[np.float64], count: int) -> float:
    """Return the score of the last of the best spans; the lowest there is if all are wanted."""
    lowest = float(np.finfo(scores.dtype).min)
    if scores.size <= count:
        return lowest
    return max(float(np.partition(scores, -count, axis=None)[-count]), lowest)
