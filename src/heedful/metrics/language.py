"""Scores of masked and next tokens and sentences, batch by batch."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.errors import UserError


class LanguageScores:
    """Scores the prediction of masked tokens, and of how the texts of pairs belong together.

    Its memory does not grow with the data.

    Args:
        pair_metric: what the share of pairs that were predicted right is called.
    """

    def __init__(self, pair_metric: str | None = None) -> None:
        self._pair_metric = pair_metric
        self._items = self._tokens = self._right = self._pairs = self._pairs_right = 0
        self._loss = 0.0

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
        self._right += int(right.sum())
        self._loss += float(losses.double().sum())
        if pair_right is not None:
            self._pairs += len(pair_right)
            self._pairs_right += int(pair_right.sum())

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON.

        ``items``, ``masked_tokens``, ``masked_accuracy``, ``perplexity`` (the exponential of the
        mean loss of a masked token) and, for pairs, the accuracy of the name that was given.

        Raises:
            UserError: nothing was counted.
        """
        if not self._tokens:
            raise UserError("no items to score: the data is empty")
        loss = self._loss / self._tokens
        scores = {
            "items": self._items,
            "masked_tokens": self._tokens,
            "masked_accuracy": self._right / self._tokens,
            "perplexity": math.exp(min(loss, 700.0)),  # what a float can hold
        }
        if self._pair_metric is not None and self._pairs:
            scores[self._pair_metric] = self._pairs_right / self._pairs
        return scores


class NextTokenScores:
    """Scores the prediction of each token from those before it.

    Its memory grows with the vocabulary alone.
    """

    def __init__(self) -> None:
        self._scores = LanguageScores()
        self._counts = np.zeros(0, np.int64)  # how often each token was to be told

    def update(self, loss: float, right: int, tokens: NDArray[np.int32]) -> None:
        """Count a sequence.

        Args:
            loss: sum of the losses of its tokens, in nats.
            right: how many of them were predicted right.
            tokens: what was to be told. Shape (T,).

        Raises:
            UserError: the loss is not a number.
        """
        import torch

        self._scores.update(*(torch.tensor([number]) for number in (loss, right, len(tokens))))
        counts = np.bincount(tokens, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON.

        ``items`` and ``tokens``; ``next_accuracy``, and ``always_commonest``, what it would be for
        the commonest token each time; ``log_likelihood`` (a token's mean) and ``perplexity``, and
        ``unigram_perplexity``, what it would be for knowing only how often each token stands in
        this very data.

        Raises:
            UserError: nothing was counted.
        """
        scores = self._scores.compute()
        shares = self._counts[self._counts > 0] / self._counts.sum()
        return {
            "items": scores["items"],
            "tokens": scores["masked_tokens"],
            "next_accuracy": scores["masked_accuracy"],
            "always_commonest": float(shares.max()),
            "log_likelihood": -math.log(scores["perplexity"]),
            "perplexity": scores["perplexity"],
            "unigram_perplexity": math.exp(-float((shares * np.log(shares)).sum())),
        }
