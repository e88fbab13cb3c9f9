"""Language-modelling scores: masked tokens, next tokens and sentence pairs, batch by batch."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.errors import UserError


class LanguageScores:
    """Scores masked-token prediction and sentence-pair prediction.

    Its memory does not grow with the data.

    Args:
        pair_metric: key under which the accuracy of the pair prediction is reported.
    """

    def __init__(self, pair_metric: str | None = None) -> None:
        self._pair_metric = pair_metric
        self._items = self._tokens = self._correct = self._pairs = self._pairs_correct = 0
        self._loss = 0.0

    def update(
        self, losses: Tensor, correct: Tensor, masked: Tensor, pair_correct: Tensor | None = None
    ) -> None:
        """Add a batch of sequences.

        Args:
            losses: summed loss of each sequence's masked tokens, in nats. Shape (N,).
            correct: number of masked tokens predicted correctly. Shape (N,).
            masked: number of masked tokens. Shape (N,).
            pair_correct: 1 if the prediction of how the two texts are related is correct, else 0;
                None for sequences of one text. Shape (N,).

        Raises:
            UserError: a loss is not finite.
        """
        if not losses.isfinite().all():
            raise UserError("a loss is not a number; the model is damaged")
        self._items += len(masked)
        self._tokens += int(masked.sum())
        self._correct += int(correct.sum())
        self._loss += float(losses.double().sum())
        if pair_correct is not None:
            self._pairs += len(pair_correct)
            self._pairs_correct += int(pair_correct.sum())

    def compute(self) -> dict[str, Any]:
        """Return the scores of all sequences added, ready for JSON.

        ``items``, ``masked_tokens``, ``masked_accuracy``, ``perplexity`` (the exponential of the
        mean loss of a masked token) and, for pairs, the pair accuracy under ``pair_metric``.

        Raises:
            UserError: no masked token was added.
        """
        if not self._tokens:
            raise UserError("no items to score: the data is empty")
        loss = self._loss / self._tokens
        scores = {
            "items": self._items,
            "masked_tokens": self._tokens,
            "masked_accuracy": self._correct / self._tokens,
            "perplexity": math.exp(min(loss, 700.0)),  # avoids float overflow
        }
        if self._pair_metric is not None and self._pairs:
            scores[self._pair_metric] = self._pairs_correct / self._pairs
        return scores


class NextTokenScores:
    """Scores next-token prediction. Memory grows only with the vocabulary."""

    def __init__(self) -> None:
        self._scores = LanguageScores()
        self._counts = np.zeros(0, np.int64)  # how often each token was the target

    def update(self, loss: float, correct: int, tokens: NDArray[np.int32]) -> None:
        """Add a sequence.

        Args:
            loss: summed loss of its tokens, in nats.
            correct: number of tokens predicted correctly.
            tokens: ids of the target tokens. Shape (T,).

        Raises:
            UserError: the loss is not finite.
        """
        import torch

        self._scores.update(*(torch.tensor([value]) for value in (loss, correct, len(tokens))))
        counts = np.bincount(tokens, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def compute(self) -> dict[str, Any]:
        """Return the scores of all sequences added, ready for JSON.

        ``items``, ``tokens``, ``next_accuracy``, ``log_likelihood`` (mean per token) and
        ``perplexity``, and two baselines. ``always_commonest`` is the accuracy of always predicting
        the most frequent token. ``unigram_perplexity`` is the perplexity of a unigram model fitted
        to this same data.

        Raises:
            UserError: no token was added.
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
