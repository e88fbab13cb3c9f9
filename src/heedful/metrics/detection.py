"""Scores of replaced tokens among original ones, batch by batch, with the means of torchmetrics."""

from typing import Any

from torch import Tensor


class DetectionScores:
    """Scores how well replaced tokens are told from original ones.

    Its memory does not grow with the data.
    """

    def __init__(self) -> None:
        import torch
        from torchmetrics.aggregation import MeanMetric  # takes seconds to import

        self._right, self._original, self._precision, self._recall, self._f1 = (
            MeanMetric(sync_on_compute=False).set_dtype(torch.float64) for _ in range(5)
        )

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
        for mean, above, below in (
            (self._right, right, tokens),
            (self._original, tokens - replaced, tokens),
            (self._precision, caught, flagged),
            (self._recall, caught, replaced),
            (self._f1, 2 * caught, flagged + replaced),
        ):
            weights = below.double()
            mean.update(above.double() / weights.clamp(min=1), weights)

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON; 0 of nothing is 0.

        ``rtd_accuracy``, the share of the tokens that were told right; ``always_original``, what it
        would be if none ever looked replaced; and ``rtd_precision``, ``rtd_recall`` and ``rtd_f1``
        of replaced tokens.
        """
        return {
            name: float(mean.compute().nan_to_num())
            for name, mean in (
                ("rtd_accuracy", self._right),
                ("always_original", self._original),
                ("rtd_precision", self._precision),
                ("rtd_recall", self._recall),
                ("rtd_f1", self._f1),
            )
        }
