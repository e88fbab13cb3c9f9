"""Scores of replaced-token detection: counts accumulated batch by batch, scored by scikit-learn."""

from typing import Any

import numpy as np
from torch import Tensor

from heedful.metrics.counts import Counts, precision_recall_f1


class DetectionScores:
    """Scores replaced-token detection. Its memory does not grow with the data."""

    def __init__(self) -> None:
        self._tokens = self._correct = self._replaced = self._flagged = self._caught = 0

    def update(
        self, tokens: Tensor, correct: Tensor, replaced: Tensor, flagged: Tensor, caught: Tensor
    ) -> None:
        """Add a batch of sequences.

        Args:
            tokens: number of tokens of each sequence. Shape (N,).
            correct: number of tokens classified correctly. Shape (N,).
            replaced: number of tokens that were replaced. Shape (N,).
            flagged: number of tokens predicted as replaced. Shape (N,).
            caught: number of replaced tokens predicted as replaced. Shape (N,).
        """
        self._tokens += int(tokens.sum())
        self._correct += int(correct.sum())
        self._replaced += int(replaced.sum())
        self._flagged += int(flagged.sum())
        self._caught += int(caught.sum())

    def compute(self) -> dict[str, Any]:
        """Return the scores of all sequences added, ready for JSON; 0 divided by 0 is 0.

        ``rtd_accuracy`` is the fraction of tokens classified correctly. ``always_original`` is the
        accuracy of always predicting "original". ``rtd_precision``, ``rtd_recall`` and ``rtd_f1``
        are for the class "replaced".
        """
        caught, total = self._caught, max(self._tokens, 1)
        false_positives, false_negatives = self._flagged - caught, self._replaced - caught
        cells = Counts(
            *np.array([[1, 0, 1], [1, 1, 0], [caught, false_positives, false_negatives]])
        )
        precision, recall, f1, _ = precision_recall_f1(cells, [1], average="micro")
        return {
            "rtd_accuracy": self._correct / total,
            "always_original": (self._tokens - self._replaced) / total,
            "rtd_precision": float(precision),
            "rtd_recall": float(recall),
            "rtd_f1": float(f1),
        }
