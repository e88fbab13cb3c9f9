"""Counts of (true, predicted) class pairs, and their precision, recall and F1 by scikit-learn.

Counting needs no memory per item and gives the same scores as the individual items.

Shapes: M pairs of a true and a predicted class, L labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_NO_LABEL = -1


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of items of each pair of a true and a predicted class. Each of shape (M,), int64."""

    true: NDArray[np.int64]
    predicted: NDArray[np.int64]
    number: NDArray[np.int64]
    """Number of items with this true and this predicted class."""

    def seen(self) -> list[int]:
        """Return the sorted classes that occur as a true or predicted class."""
        classes: list[int] = np.union1d(self.true, self.predicted).tolist()
        return classes


def precision_recall_f1(
    counts: Counts, labels: Sequence[int], *, average: Literal["macro", "micro"] | None
) -> tuple[Any, Any, Any, Any]:
    """Return precision, recall, F1 and support; 0 divided by 0 is 0.

    Args:
        counts: the counts of class pairs.
        labels: the classes to score. Other classes matter only in mistakes about these.
        average: how to average over the labels; None for one value per label, shape (L,).
    """
    # Takes a second to import, so it is imported when something is scored.
    from sklearn.metrics import precision_recall_fscore_support

    # scikit-learn rejects weights that are all 0. Add one item of no label: it changes no score.
    true, predicted = (np.append(side, _NO_LABEL) for side in (counts.true, counts.predicted))
    result: tuple[Any, Any, Any, Any] = precision_recall_fscore_support(
        true,
        predicted,
        labels=list(labels),
        average=average,
        sample_weight=np.append(counts.number, 1),
        zero_division=0,
    )
    return result
