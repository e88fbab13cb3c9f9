"""Scores of masked tokens and next sentences, batch by batch, with the means of torchmetrics."""

import math
from typing import Any

from torch import Tensor

from heedful.errors import UserError


class LanguageScores:
    """Scores the prediction of masked tokens, and of how the texts of pairs belong together.

    Its memory does not grow with the data.

    Args:
        pair_metric: what the share of pairs that were predicted right is called.
    """

    def __init__(self, pair_metric: str | None = None) -> None:
        import torch
        from torchmetrics.aggregation import MeanMetric  # takes seconds to import

        self._pair_metric = pair_metric
        self._items = self._tokens = 0
        self._loss, self._right, self._pair = (
            MeanMetric().set_dtype(torch.float64) for _ in range(3)
        )
        self._pairs = 0

    def update(
        self, losses: Tensor, right: Tensor, hidden: Tensor, pair_right: Tensor | None = None
    ) -> None:
        """Count some sequences.

        Args:
            losses: sum of the losses of each sequence's masked tokens, in nats. Shape (N,).
            right: how many of these tokens were predicted right. Shape (N,).
            hidden: how many there are. Shape (N,).
            pair_right: 1 if the prediction of how the two texts belong together is right, else 0;
                None for sequences of one text. Shape (N,).

        Raises:
            UserError: a loss is not a number.
        """
        if not losses.isfinite().all():
            raise UserError("a loss is not a number; the model is damaged")
        self._items += len(hidden)
        self._tokens += int(hidden.sum())
        weights = hidden.double()
        self._loss.update(losses.double() / weights.clamp(min=1), weights)
        self._right.update(right.double() / weights.clamp(min=1), weights)
        if pair_right is not None:
            self._pairs += len(pair_right)
            self._pair.update(pair_right.double())

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON.

        ``items``, ``masked_tokens``, ``masked_accuracy``, ``perplexity`` (the exponential of the
        mean loss of a masked token) and, for pairs, the accuracy of the name that was given.

        Raises:
            UserError: nothing was counted.
        """
        if not self._tokens:
            raise UserError("no items to score: the data is empty")
        loss = float(self._loss.compute())
        scores = {
            "items": self._items,
            "masked_tokens": self._tokens,
            "masked_accuracy": float(self._right.compute()),
            "perplexity": math.exp(min(loss, 700.0)),  # what a float can hold
        }
        if self._pair_metric is not None and self._pairs:
            scores[self._pair_metric] = float(self._pair.compute())
        return scores
