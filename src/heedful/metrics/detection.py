"""Scores of replaced tokens among original ones, batch by batch: scikit-learn scores the counts."""

from typing import Any

import numpy as np
from torch import Tensor

from heedful.metrics.counts import Counts, rates


class DetectionScores:
    """Scores how well replaced tokens are told from original ones.

    Its memory does not grow with the data.
    """

    def __init__(self) -> None:
        self._tokens = self._right = self._replaced = self._flagged = self._caught = 0

    def update(
        self, tokens: Tensor, right: Tensor, replaced: Tensor, flagged: Tensor, caught: Tensor
    ) -> None:
        """Count some sequences.

        Args:
            tokens: how many tokens each has. Shape (N,).
            right: how many of them were told right: replaced or original. Shape (N,).
            replaced: how many were replaced. Shape (N,).
            flagged: how many looked replaced. Shape (N,).
            caught: how many were, and looked, replaced. Shape (N,).
        """
        self._tokens += int(tokens.sum())
        self._right += int(right.sum())
        self._replaced += int(replaced.sum())
        self._flagged += int(flagged.sum())
        self._caught += int(caught.sum())

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON; 0 of nothing is 0.

        ``rtd_accuracy``, the share of the tokens that were told right; ``always_original``, what it
        would be if none ever looked replaced; and ``rtd_precision``, ``rtd_recall`` and ``rtd_f1``
        of replaced tokens.
        """
        caught, total = self._caught, max(self._tokens, 1)
        added, missed = self._flagged - caught, self._replaced - caught
        cells = Counts(*np.array([[1, 0, 1], [1, 1, 0], [caught, added, missed]]))
        precision, recall, f1, _ = rates(cells, [1], average="micro")
        return {
            "rtd_accuracy": self._right / total,
            "always_original": (self._tokens - self._replaced) / total,
            "rtd_precision": float(precision),
            "rtd_recall": float(recall),
            "rtd_f1": float(f1),
        }
