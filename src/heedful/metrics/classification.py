"""Scores of a classifier, batch by batch: torchmetrics counts, this file handles its edge cases."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heedful.errors import UserError

if TYPE_CHECKING:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassCalibrationError, MulticlassMatthewsCorrCoef

# N items, C classes

CALIBRATION_BINS = 15
"""Bins of the calibration error, as many as in Guo et al. 2017."""


class ClassificationScores:
    """Collects predictions and scores them.

    Its memory does not grow with the data, except for the calibration error of single-label data: 8
    bytes for each item, its confidence and whether it was right.

    Args:
        labels: names of the classes, in the order of the model's outputs.
        multi_label: whether an item may have any number of labels instead of exactly one.
        threshold: the least probability of a predicted label; for multi-label only.
    """

    def __init__(
        self, labels: Sequence[str], multi_label: bool = False, threshold: float = 0.5
    ) -> None:
        self.labels = list(labels)
        self.multi_label = multi_label
        self.threshold = threshold
        self._items = 0
        size = len(self.labels)
        self._rates = _rates(size, multi_label)
        # Single precision, the library's choice, would give an accuracy of 0.9200000166893005.
        self._rates.set_dtype(torch.float64)
        if not multi_label:
            self._matthews, self._calibration = _single_label_metrics(size)

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
        # The library would silently take anything else for logits.
        assert bool(((probabilities >= 0) & (probabilities <= 1)).all()), "no probability"
        if len(targets) == 0:  # the library cannot reshape empty tensors
            return
        self._items += len(targets)
        probabilities, targets = probabilities.cpu(), targets.cpu()
        if self.multi_label:
            # The library does not count a probability that equals its threshold.
            self._rates.update((probabilities >= self.threshold).long(), targets.long())
            return
        assert bool(((targets >= 0) & (targets < size)).all()), "no such class"
        self._rates.update(probabilities, targets)
        self._matthews.update(probabilities, targets)
        # The library puts a confidence of exactly 1 into a bin above the last.
        self._calibration.update(probabilities.float().clamp(max=1 - 2**-24), targets)

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        For single-label data: ``items``, ``accuracy``, ``macro_f1``, ``matthews`` (Gorodkin 2004;
        0 if it is undefined because all items have, or are predicted to have, the same class),
        ``ece`` (expected calibration error of the likeliest class), ``per_class`` and ``confusion``
        (rows are the true classes). For multi-label data: ``items``, ``accuracy`` (all labels of an
        item are right), ``macro_f1``, ``micro_f1`` and ``per_class``.

        ``per_class`` has ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true items)
        in label order; 0 divided by 0 is 0. ``macro_f1`` is the mean F1 of all labels; in
        single-label data only of classes that occur in the truth or in the predictions.

        Raises:
            UserError: nothing was counted.
        """
        if self._items == 0:
            raise UserError("no items to score: the data is empty")
        rates = self._rates.compute()
        # With one label, the library drops the dimension of the labels.
        columns = [
            rates[name].reshape(len(self.labels), -1)
            for name in ("precision", "recall", "f1", "counts")
        ]
        per_class = [
            {"label": label, "precision": p, "recall": r, "f1": f1, "support": int(support)}
            for label, (p, r, f1, *_, support) in zip(
                self.labels, torch.cat(columns, dim=1).tolist(), strict=True
            )
        ]
        accuracy, macro_f1 = float(rates["accuracy"]), float(rates["macro_f1"])
        if self.multi_label:
            return {
                "items": self._items,
                "accuracy": accuracy,
                "macro_f1": macro_f1,
                "micro_f1": float(rates["micro_f1"]),
                "per_class": per_class,
            }
        confusion = self._matthews.confmat  # (C, C)
        return {
            "items": self._items,
            "accuracy": accuracy,
            "macro_f1": macro_f1,
            "matthews": self._correlation(confusion),
            "ece": self._calibration_error(),
            "per_class": per_class,
            "confusion": confusion.tolist(),
        }

    def _correlation(self, confusion: Tensor) -> float:
        # With a single class in the truth or the predictions, the library's result is arbitrary.
        if any(int(confusion.any(side).sum()) < 2 for side in (0, 1)):
            return 0.0
        # The library casts its counts to single precision; their squares then lose a rare class.
        confusion.float = confusion.double  # type: ignore[method-assign]
        return float(self._matthews.compute())

    def _calibration_error(self) -> float:
        # The library sums confidences in single precision, which is too coarse for long sums.
        self._calibration.set_dtype(torch.float64)
        return float(self._calibration.compute())


# torchmetrics takes seconds to import, so it is imported when something is scored. Its checks of
# arguments are off: they refuse multi-label data with one label, and sort the targets of a batch.
# Where several processes score, each counts all items: they are not to be added up.
_PLAIN: dict[str, Any] = {"validate_args": False, "sync_on_compute": False}


def _rates(size: int, multi_label: bool) -> "MetricCollection":
    import torchmetrics
    from torchmetrics.classification import MulticlassAccuracy, MultilabelExactMatch

    shared: dict[str, Any] = {
        "task": "multilabel" if multi_label else "multiclass",
        "num_labels" if multi_label else "num_classes": size,
        **_PLAIN,
    }
    each = {**shared, "average": "none"}
    metrics: dict[str, Any] = {
        "accuracy": MultilabelExactMatch(size, **_PLAIN)
        if multi_label
        else MulticlassAccuracy(size, average="micro", **_PLAIN),
        "macro_f1": torchmetrics.F1Score(**shared, average="macro"),
        "precision": torchmetrics.Precision(**each),
        "recall": torchmetrics.Recall(**each),
        "f1": torchmetrics.F1Score(**each),
        "counts": torchmetrics.StatScores(**each),
    }
    if multi_label:
        metrics["micro_f1"] = torchmetrics.F1Score(**shared, average="micro")
    return torchmetrics.MetricCollection(metrics)


def _single_label_metrics(
    size: int,
) -> "tuple[MulticlassMatthewsCorrCoef, MulticlassCalibrationError]":
    from torchmetrics.classification import MulticlassCalibrationError, MulticlassMatthewsCorrCoef

    return (
        MulticlassMatthewsCorrCoef(size, **_PLAIN),
        MulticlassCalibrationError(size, CALIBRATION_BINS, norm="l1", **_PLAIN),
    )
