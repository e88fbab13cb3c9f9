"""Equality up to rounding: of texts that a search wrote, of a run's scores, and of JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heedful.decoding.search import Hypothesis


def assert_same_texts(
    found: Sequence[Sequence[Hypothesis]], right: Sequence[Sequence[Hypothesis]]
) -> None:
    """Check the texts of each item: tokens exactly, scores as float64 rounds."""
    assert tokens_of(found) == tokens_of(right)
    for texts, others in zip(found, right, strict=True):
        for text, other in zip(texts, others, strict=True):
            assert text.ended == other.ended
            for name in ("log_probability", "score"):
                expected = pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9)
                assert getattr(text, name) == expected, name


def tokens_of(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    """Return the tokens alone."""
    return [[text.tokens for text in texts] for texts in found]


def assert_same_scores(found: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    """Check every score by name, including those of parts of the data."""
    assert found.keys() == right.keys()
    for name, value in right.items():
        if isinstance(value, Mapping):
            assert_same_scores(found[name], value)
        else:
            assert found[name] == pytest.approx(value), name


def same(one: Any, other: Any, tolerance: float = 1e-5) -> bool:
    """Return whether two values of JSON agree: numbers up to the tolerance, all else exactly."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k], tolerance) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            same(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    return bool(one == other)
