"""Scores as texts, for tables and sentences."""

_SMALL = 1e-3
"""Size below which a score is shown by its digits: four decimals would be almost all zeros."""


def score_text(score: float) -> str:
    """Return a score with four decimals, or a small one with three significant digits."""
    return f"{score:.3g}" if 0 < abs(score) < _SMALL else f"{score:.4f}"


def difference_text(difference: float, *scores: float) -> str:
    """Return a difference of two scores with its sign, in the style of the larger score."""
    is_small = 0 < max(map(abs, scores)) < _SMALL
    return f"{difference:+.3g}" if is_small else f"{difference:+.4f}"
