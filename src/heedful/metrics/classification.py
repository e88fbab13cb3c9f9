"""Scores of a classifier, counted batch by batch: memory does not grow with the data.

Every score comes from whole-number counts, so it is exact to the last digit however the data was
cut into batches. (The libraries at hand sum in single precision, keep every item for the
calibration error, and give a Matthews correlation where it is not defined.)
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.errors import UserError

# N items, C classes

CALIBRATION_BINS = 15
"""Bins of the calibration error, as many as in Guo et al. 2017."""


class ClassificationScores:
    """Collects predictions and gives their scores.

    Args:
        labels: names of the classes, in the order of the model's outputs.
        multi_label: whether an item may have any number of labels instead of exactly one.
        threshold: probability from which a label counts as predicted; for multi-label only.
    """

    def __init__(
        self, labels: Sequence[str], multi_label: bool = False, threshold: float = 0.5
    ) -> None:
        self.labels = list(labels)
        self.multi_label = multi_label
        self.threshold = threshold
        size = len(self.labels)
        self._items = 0
        self._right = 0
        # Single-label: items of class (row) that were taken for class (column).
        self._confusion = torch.zeros(0 if multi_label else size**2, dtype=torch.int64)
        # Multi-label: of each class, the items found, predicted and true.
        self._hits, self._predicted, self._support = torch.zeros(3, size, dtype=torch.int64)
        # Of each bin, the items, the right ones and the sum of the confidences.
        self._bins = torch.zeros(3, CALIBRATION_BINS, dtype=torch.float64)

    def update(self, probabilities: Tensor, targets: Tensor) -> None:
        """Count a batch.

        Shape:
            probabilities: (N, C).
            targets: (N,) class numbers, or (N, C) zeros and ones for multi-label.

        Raises:
            UserError: a probability is not a number.
        """
        size = len(self.labels)
        assert probabilities.shape == (len(targets), size), probabilities.shape
        assert targets.shape == (probabilities.shape if self.multi_label else (len(targets),))
        if not probabilities.isfinite().all():
            raise UserError("a predicted probability is not a number; the model is damaged")
        self._items += len(targets)
        if self.multi_label:
            self._count_labels(probabilities >= self.threshold, targets.bool())
        else:
            self._count_classes(probabilities, targets)

    def _count_classes(self, probabilities: Tensor, targets: Tensor) -> None:
        size = len(self.labels)
        assert bool(((targets >= 0) & (targets < size)).all()), "no such class"
        confidence, predicted = probabilities.double().max(-1)  # (N,), (N,)
        right = predicted == targets
        self._right += int(right.sum())
        cell = targets * size + predicted  # (N,)
        self._confusion += torch.bincount(cell, minlength=size**2).cpu()
        # Bins are open below and closed above: ((m - 1) / M, m / M].
        bins = (confidence * CALIBRATION_BINS).ceil().long().sub(1).clamp(0, CALIBRATION_BINS - 1)
        for row, weights in zip(
            self._bins, (torch.ones_like(confidence), right.double(), confidence), strict=True
        ):
            row += torch.bincount(bins, weights, minlength=CALIBRATION_BINS).cpu()

    def _count_labels(self, predicted: Tensor, true: Tensor) -> None:
        self._right += int((predicted == true).all(-1).sum())
        self._hits += (predicted & true).sum(0).cpu()
        self._predicted += predicted.sum(0).cpu()
        self._support += true.sum(0).cpu()

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        For single-label data: ``items``, ``accuracy``, ``macro_f1``, ``matthews`` (Gorodkin 2004,
        0 where it is undefined because all items are of one class or were taken for one), ``ece``
        (expected calibration error of the likeliest class), ``per_class`` and ``confusion`` (rows
        are the true classes). For multi-label data: ``items``, ``accuracy`` (all labels of an item
        right), ``micro_f1``, ``macro_f1`` and ``per_class``.

        ``per_class`` has ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true items)
        in label order; a ratio of nothing to nothing is 0. ``macro_f1`` is the mean of the F1 of
        all labels, but in single-label data of those classes that occur, in the truth or in the
        predictions.

        Raises:
            UserError: nothing was counted.
        """
        if self._items == 0:
            raise UserError("no items to score: the data is empty")
        return self._label_scores() if self.multi_label else self._class_scores()

    def _class_scores(self) -> dict[str, Any]:
        size = len(self.labels)
        counts = self._confusion.reshape(size, size)
        hits = counts.diagonal().tolist()
        predicted, support = counts.sum(0).tolist(), counts.sum(1).tolist()
        per_class = self._per_class(hits, predicted, support)
        occurring = [
            row["f1"] for row, p, s in zip(per_class, predicted, support, strict=True) if p or s
        ]
        items, right, confidence = self._bins
        return {
            "items": self._items,
            "accuracy": self._right / self._items,
            "macro_f1": _mean(occurring),
            "matthews": _matthews(self._items, self._right, predicted, support),
            "ece": float((right - confidence).abs().sum() / items.sum()),
            "per_class": per_class,
            "confusion": counts.tolist(),
        }

    def _label_scores(self) -> dict[str, Any]:
        hits, predicted, support = (
            counts.tolist() for counts in (self._hits, self._predicted, self._support)
        )
        per_class = self._per_class(hits, predicted, support)
        return {
            "items": self._items,
            "accuracy": self._right / self._items,
            "micro_f1": _ratio(2 * sum(hits), sum(predicted) + sum(support)),
            "macro_f1": _mean([row["f1"] for row in per_class]),
            "per_class": per_class,
        }

    def _per_class(
        self, hits: list[int], predicted: list[int], support: list[int]
    ) -> list[dict[str, Any]]:
        return [
            {
                "label": label,
                "precision": _ratio(hit, given),
                "recall": _ratio(hit, true),
                "f1": _ratio(2 * hit, given + true),
                "support": true,
            }
            for label, hit, given, true in zip(self.labels, hits, predicted, support, strict=True)
        ]


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _matthews(items: int, right: int, predicted: list[int], support: list[int]) -> float:
    """Return the correlation of truth and prediction, from whole numbers of any size."""
    covariance = right * items - sum(p * s for p, s in zip(predicted, support, strict=True))
    spread_predicted = items**2 - sum(p * p for p in predicted)
    spread_true = items**2 - sum(s * s for s in support)
    variance = spread_predicted * spread_true
    return covariance / math.sqrt(variance) if variance else 0.0
