"""Whether probabilities can be taken at their word (Guo et al. 2017).

Shapes: N decisions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CALIBRATION_BINS = 15
"""Bins of the calibration error, as many as in Guo et al. 2017."""


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


class Calibration:
    """Counts decisions in bins of their probabilities. Its memory does not grow with the data."""

    def __init__(self) -> None:
        self._counts, self._confidences, self._right = np.zeros((3, CALIBRATION_BINS))

    def update(self, confidence: NDArray[Any], right: NDArray[Any]) -> None:
        """Count some decisions.

        Args:
            confidence: the probability of each. Shape (N,).
            right: whether it is right: true or false, or 1 or 0. Shape (N,).
        """
        bins = bins_of(confidence)
        for sums, weights in (
            (self._counts, None),
            (self._confidences, confidence),
            (self._right, right),
        ):
            sums += np.bincount(bins, weights, minlength=CALIBRATION_BINS)

    def bins(self) -> list[Bin]:
        """Return the bins that hold a decision, the least sure first."""
        return [
            Bin(
                low=number / CALIBRATION_BINS,
                high=(number + 1) / CALIBRATION_BINS,
                count=int(count),
                confidence=float(self._confidences[number] / count),
                accuracy=float(self._right[number] / count),
            )
            for number, count in enumerate(self._counts)
            if count
        ]


def bins_of(confidence: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of the bin of each probability; a bin holds its upper edge. Shape (N,)."""
    numbers = np.ceil(confidence.astype(np.float64) * CALIBRATION_BINS) - 1
    bins: NDArray[np.int64] = np.clip(numbers, 0, CALIBRATION_BINS - 1).astype(np.int64)
    return bins


def calibration_error(bins: list[Bin]) -> float:
    """Return the expected calibration error: how far, on average, sure is from right."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.accuracy - one.confidence) for one in bins) / max(total, 1)
