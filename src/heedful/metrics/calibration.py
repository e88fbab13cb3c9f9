"""Whether probabilities can be taken at their word (Guo et al. 2017).

Shapes: N decisions.
"""

from dataclasses import dataclass

import numpy as np

from heedful.metrics.classification import CALIBRATION_BINS
from heedful.metrics.measures import Numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """Decisions of about the same probability."""

    low: float
    high: float
    count: int
    confidence: float
    """The mean of their probabilities."""
    accuracy: float
    """The share of them that are right."""


def reliability(decisions: Numbers) -> list[Bin]:
    """Return the bins that hold a decision, the least sure first.

    Args:
        decisions: the probability of each, and 1 if it is right, else 0. Shape (N, 2).
    """
    confidence, right = decisions.T
    # A bin holds its upper edge, as those of torchmetrics do.
    numbers = np.clip(np.ceil(confidence * CALIBRATION_BINS) - 1, 0, CALIBRATION_BINS - 1)
    return [
        Bin(
            low=number / CALIBRATION_BINS,
            high=(number + 1) / CALIBRATION_BINS,
            count=int(inside.sum()),
            confidence=float(confidence[inside].mean()),
            accuracy=float(right[inside].mean()),
        )
        for number in range(CALIBRATION_BINS)
        if (inside := numbers == number).any()
    ]


def calibration_error(bins: list[Bin]) -> float:
    """Return the expected calibration error: how far, on average, sure is from right."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.accuracy - one.confidence) for one in bins) / max(total, 1)
