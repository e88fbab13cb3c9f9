"""Calibration of predicted probabilities (Guo et al. 2017).

Shapes: N predictions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CALIBRATION_BINS = 15
"""Number of bins of the calibration error, as in Guo et al. 2017."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """Statistics of the predictions whose confidence falls into one bin."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean confidence of the predictions."""
    accuracy: float
    """Fraction of the predictions that are correct."""


class Calibration:
    """Bins predictions by confidence. Its memory does not grow with the data."""

    def __init__(self) -> None:
        self._counts, self._confidences, self._correct = np.zeros((3, CALIBRATION_BINS))

    def update(self, confidence: NDArray[Any], correct: NDArray[Any]) -> None:
        """Add a batch of predictions.

        Args:
            confidence: the probability of each prediction. Shape (N,).
            correct: whether each prediction is correct: booleans, or 1 and 0. Shape (N,).
        """
        bins = bins_of(confidence)
        for sums, weights in (
            (self._counts, None),
            (self._confidences, confidence),
            (self._correct, correct),
        ):
            sums += np.bincount(bins, weights, minlength=CALIBRATION_BINS)

    def bins(self) -> list[Bin]:
        """Return the non-empty bins, lowest confidence first."""
        return [
            Bin(
                low=number / CALIBRATION_BINS,
                high=(number + 1) / CALIBRATION_BINS,
                count=int(count),
                confidence=float(self._confidences[number] / count),
                accuracy=float(self._correct[number] / count),
            )
            for number, count in enumerate(self._counts)
            if count
        ]


def bins_of(confidence: NDArray[Any]) -> NDArray[np.int64]:
    """Return the bin index of each probability; a bin includes its upper edge. Shape (N,)."""
    indices = np.ceil(confidence.astype(np.float64) * CALIBRATION_BINS) - 1
    bins: NDArray[np.int64] = np.clip(indices, 0, CALIBRATION_BINS - 1).astype(np.int64)
    return bins


def calibration_error(bins: list[Bin]) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.accuracy - one.confidence) for one in bins) / max(total, 1)
