"""The best spans equal those of an exhaustive search, each counted in one window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.decoding.spans import ScoredWindow, Span, best_spans, most_context


def window(first: int, start: list[float], end: list[float]) -> ScoredWindow:
    """Return a window whose tokens are two characters wide, with one between them."""
    places = np.arange(first, first + len(start), dtype=np.int32)
    return ScoredWindow(
        first=first,
        offsets=np.stack([3 * places, 3 * places + 2], axis=1),
        start=np.array(start, dtype=np.float32),
        end=np.array(end, dtype=np.float32),
    )


def test_each_token_belongs_to_the_window_where_it_has_the_most_context() -> None:
    # Tokens 0-5, 3-8 and 4-9: token 4 is 1 from an end of both of its first windows.
    assert most_context([(0, 6), (3, 6), (4, 6)]).tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]
    assert most_context([(0, 3)]).tolist() == [0, 0, 0]
    assert most_context([(0, 0)]).tolist() == []


def test_best_spans_are_slices_in_order() -> None:
    scored = window(0, [1.0, 0.0, 5.0], [0.0, 3.0, 1.0])
    assert best_spans([scored], count=3, max_tokens=2) == [
        Span(start=6, end=8, score=6.0),
        Span(start=0, end=5, score=4.0),
        Span(start=3, end=5, score=3.0),
    ]


def test_a_span_is_never_longer_than_allowed() -> None:
    scored = window(0, [9.0, 0.0, 0.0], [0.0, 1.0, 9.0])
    (best,) = best_spans([scored], count=1, max_tokens=3)
    assert best == Span(start=0, end=8, score=18.0)
    (best,) = best_spans([scored], count=1, max_tokens=2)
    assert best == Span(start=0, end=5, score=10.0)


def test_a_span_does_not_end_before_it_starts() -> None:
    scored = window(0, [0.0, 9.0], [9.0, 0.0])
    assert {(span.start, span.end) for span in best_spans([scored], count=9, max_tokens=9)} == {
        (0, 2),
        (0, 5),
        (3, 5),
    }


def test_a_span_counts_where_its_first_token_has_the_most_context() -> None:
    # Token 1 is at an end of the second window, and token 2 of the first: the 8 and the 9 are void.
    first = window(0, [0.0, 0.0, 9.0], [0.0, 0.0, 0.0])
    second = window(1, [8.0, 1.0, 0.0], [8.0, 1.0, 2.0])
    (best,) = best_spans([first, second], count=1, max_tokens=5)
    assert best == Span(start=6, end=11, score=3.0)


def test_equal_scores_are_ordered_by_place() -> None:
    spans = best_spans([window(0, [0.0] * 3, [0.0] * 3)], count=4, max_tokens=2)
    assert [(span.start, span.end) for span in spans] == [(0, 2), (0, 5), (3, 5), (3, 8)]


def test_spans_of_the_same_characters_are_one() -> None:
    pieces = ScoredWindow(
        first=0,
        offsets=np.array([[0, 1], [0, 1], [1, 2]], dtype=np.int32),  # two pieces of one character
        start=np.array([1, 2, 0], dtype=np.float32),
        end=np.array([1, 2, 0], dtype=np.float32),
    )
    spans = best_spans([pieces], count=9, max_tokens=9)
    assert [(span.start, span.end, span.score) for span in spans] == [
        (0, 1, 4.0),
        (0, 2, 2.0),
        (1, 2, 0.0),
    ]


def test_a_slice_holds_all_of_its_tokens_whatever_their_order() -> None:
    pieces = ScoredWindow(
        first=0,
        offsets=np.array([[2, 3], [1, 2]], dtype=np.int32),
        start=np.array([9, 0], dtype=np.float32),
        end=np.array([0, 9], dtype=np.float32),
    )
    assert best_spans([pieces], count=1, max_tokens=2) == [Span(start=1, end=3, score=18.0)]


def test_no_tokens_no_spans() -> None:
    assert best_spans([window(0, [], [])], count=3, max_tokens=3) == []


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
)
@pytest.mark.filterwarnings("error")
def test_nothing_better_is_missed(
    tokens: int, size: int, count: int, max_tokens: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    starts = [*range(0, max(tokens - size, 0), max(size // 2, 1)), max(tokens - size, 0)]
    windows = []
    for first in starts:
        many = min(size, tokens - first)
        start, end = draw.integers(-3, 4, (2, many)).tolist()
        windows.append(window(first, start, end))
    owner = most_context([(each.first, len(each.start)) for each in windows])
    every = [
        (float(-(each.start[a] + each.end[b])), 3 * (each.first + a), 3 * (each.first + b) + 2)
        for number, each in enumerate(windows)
        for a in range(len(each.start))
        if owner[each.first + a] == number
        for b in range(a, min(a + max_tokens, len(each.start)))
    ]
    found = best_spans(windows, count=count, max_tokens=max_tokens)
    assert [(-span.score, span.start, span.end) for span in found] == sorted(every)[:count]


def test_spans_of_nothing_but_space_take_no_place() -> None:
    offsets = np.array([[n, n] for n in range(6)] + [[6, 9], [10, 13]], dtype=np.int32)
    scores = np.linspace(9.0, 1.0, len(offsets))
    window = ScoredWindow(first=0, offsets=offsets, start=scores, end=scores)
    spans = best_spans([window], count=3, max_tokens=8)
    assert [(span.start, span.end) for span in spans] == [(6, 9), (6, 13), (10, 13)]
    assert best_spans([window], count=9, max_tokens=8) == spans
