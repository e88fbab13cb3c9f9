"""How often each class was taken for each, and what scikit-learn makes of that.

Whoever counts needs no memory for each item, and gets what the items would give one by one.

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
    """Numbers of items. Each of shape (M,), int64."""

    true: NDArray[np.int64]
    predicted: NDArray[np.int64]
    number: NDArray[np.int64]
    """How many items have this true and this predicted class."""

    def seen(self) -> list[int]:
        """Return the classes that are true or predicted of any item, in order."""
        classes: list[int] = np.union1d(self.true, self.predicted).tolist()
        return classes


def rates(
    counts: Counts, labels: Sequence[int], *, average: Literal["macro", "micro"] | None
) -> tuple[Any, Any, Any, Any]:
    """Return precision, recall, F1 and how often a label is true; 0 divided by 0 is 0.

    Args:
        counts: of the items.
        labels: which classes count. Others are only what these are taken for.
        average: of F1 over the labels; None for one number each, shape (L,).
    """
    # Takes a second to import, so it is imported when something is scored.
    from sklearn.metrics import precision_recall_fscore_support

    # It refuses counts that are all 0: one item of no label more changes nothing.
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
