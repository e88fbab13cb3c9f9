"""Texts of a search that are the same, with scores that are the same up to rounding."""

from collections.abc import Sequence

import pytest

from heedful.decoding.search import Hypothesis


def assert_alike(
    found: Sequence[Sequence[Hypothesis]],
    right: Sequence[Sequence[Hypothesis]],
    tolerance: float = 1e-9,
) -> None:
    """Check the texts of each item; the tolerance, absolute and relative, is that of float64."""
    assert tokens_of(found) == tokens_of(right)
    for texts, others in zip(found, right, strict=True):
        for text, other in zip(texts, others, strict=True):
            assert text.ended == other.ended
            for name in ("log_probability", "score"):
                expected = pytest.approx(getattr(other, name), rel=tolerance, abs=tolerance)
                assert getattr(text, name) == expected, name


def tokens_of(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    """Return the tokens alone."""
    return [[text.tokens for text in texts] for texts in found]
