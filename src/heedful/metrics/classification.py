"""Classification metrics: counts accumulated batch by batch, and scored by scikit-learn."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.errors import UserError
from heedful.metrics.by_label import confusion_scores
from heedful.metrics.calibration import Calibration, calibration_error
from heedful.metrics.counts import Counts, precision_recall_f1

# N items, C classes


class ClassificationScores:
    """Collects predictions and scores them. Its memory does not grow with the data.

    Args:
        labels: names of the classes, in the order of the model's outputs.
        multi_label: whether an item may have any number of labels instead of exactly one.
        threshold: the lowest probability of a predicted label; for multi-label only.
    """

    def __init__(
        self, labels: Sequence[str], multi_label: bool = False, threshold: float = 0.5
    ) -> None:
        self.labels = list(labels)
        self.multi_label = multi_label
        self.threshold = threshold
        self._items = self._correct = 0
        # Single-label: the number of items of each pair of a true and a predicted class. A matrix
        # of all pairs would fill the memory if there are many classes.
        self._pairs: Counter[tuple[int, int]] = Counter()
        # Multi-label: true positives, false positives and false negatives of each label, (3, C).
        self._counts = np.zeros((3, len(self.labels)), np.int64)
        self._calibration = Calibration()

    def update(self, probabilities: Tensor, targets: Tensor) -> None:
        """Add a batch.

        Shape:
            probabilities: (N, C).
            targets: (N,) class indices, or (N, C) zeros and ones for multi-label.

        Raises:
            UserError: a probability is not a number.
        """
        size = len(self.labels)
        assert probabilities.shape == (len(targets), size), probabilities.shape
        assert targets.shape == (probabilities.shape if self.multi_label else (len(targets),))
        if not probabilities.isfinite().all():
            raise UserError("a predicted probability is not a number; the model is damaged")
        assert bool(((probabilities >= 0) & (probabilities <= 1)).all()), "no probability"
        self._items += len(targets)
        probabilities, targets = probabilities.cpu(), targets.cpu()
        if self.multi_label:
            predicted, true = (probabilities >= self.threshold).numpy(), targets.bool().numpy()
            self._correct += int((predicted == true).all(1).sum())
            for counts, cases in zip(
                self._counts, (predicted & true, predicted & ~true, true & ~predicted), strict=True
            ):
                counts += cases.sum(0)
            return
        assert bool(((targets >= 0) & (targets < size)).all()), "no such class"
        confidence, predicted = (part.numpy() for part in probabilities.double().max(1))
        correct = predicted == targets.numpy()
        self._correct += int(correct.sum())
        self._pairs.update(zip(targets.tolist(), predicted.tolist(), strict=True))
        self._calibration.update(confidence, correct)

    def compute(self) -> dict[str, Any]:
        """Return the scores of all items added so far, ready for JSON.

        For single-label data: ``items``, ``accuracy``, ``macro_f1``, ``matthews`` (Gorodkin 2004;
        0 if it is undefined because all items have, or are predicted to have, the same class),
        ``ece`` (expected calibration error of the predicted class), ``per_class`` and the keys of
        `confusion_scores`. For multi-label data: ``items``, ``accuracy`` (the fraction of
        items with all labels correct), ``macro_f1``, ``micro_f1`` and ``per_class``.

        ``per_class`` has ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true items)
        in label order; 0 divided by 0 is 0. ``macro_f1`` is the mean F1 of all labels. For
        single-label data it covers only classes that occur in the targets or the predictions.

        Raises:
            UserError: no item was added.
        """
        if self._items == 0:
            raise UserError("no items to score: the data is empty")
        size = len(self.labels)
        cells = (
            _counts_of_labels(self._counts) if self.multi_label else _counts_of_classes(self._pairs)
        )
        columns = precision_recall_f1(cells, range(size), average=None)
        per_class = [
            {"label": label, "precision": p, "recall": r, "f1": f1, "support": int(support)}
            for label, p, r, f1, support in zip(
                self.labels, *(column.tolist() for column in columns), strict=True
            )
        ]
        scored = range(size) if self.multi_label else cells.seen()
        scores = {
            "items": self._items,
            "accuracy": self._correct / self._items,
            "macro_f1": float(precision_recall_f1(cells, scored, average="macro")[2]),
        }
        if self.multi_label:
            micro_f1 = float(precision_recall_f1(cells, scored, average="micro")[2])
            return {**scores, "micro_f1": micro_f1, "per_class": per_class}
        return {
            **scores,
            "matthews": _matthews_correlation(cells),
            "ece": calibration_error(self._calibration.bins()),
            "per_class": per_class,
            **confusion_scores(cells, self.labels),
        }


def _counts_of_classes(pairs: Counter[tuple[int, int]]) -> Counts:
    rows = [(*pair, number) for pair, number in sorted(pairs.items())]
    return Counts(*np.array(rows, np.int64).T)


def _counts_of_labels(counts: NDArray[np.int64]) -> Counts:
    """Turn each label's counts into binary decisions: the label, or "other" with index C."""
    size = counts.shape[1]
    label, other = np.arange(size), np.full(size, size)
    true, predicted = np.stack([label, other, label]), np.stack([label, label, other])
    return Counts(true.ravel(), predicted.ravel(), counts.ravel())


def _matthews_correlation(cells: Counts) -> float:
    # Undefined with one class: scikit-learn would return 0 and warn.
    if min(len(np.unique(side)) for side in (cells.true, cells.predicted)) < 2:
        return 0.0
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(cells.true, cells.predicted, sample_weight=cells.number))
