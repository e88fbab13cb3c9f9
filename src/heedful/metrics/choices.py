"""Accuracy of multiple-choice predictions, updated batch by batch."""

from collections.abc import Sequence
from typing import Any

from heedful.errors import UserError


class ChoiceScores:
    """Counts the predicted choices and the correct ones."""

    def __init__(self) -> None:
        self._items = self._correct = 0

    def update(self, chosen: Sequence[int], labels: Sequence[int]) -> None:
        """Add a batch of predicted and correct choices, numbered from 0."""
        self._items += len(chosen)
        self._correct += sum(one == other for one, other in zip(chosen, labels, strict=True))

    def compute(self) -> dict[str, Any]:
        """Return ``items`` and ``accuracy``, ready for JSON.

        Raises:
            UserError: no item was added.
        """
        if not self._items:
            raise UserError("no items to score: the data is empty")
        return {"items": self._items, "accuracy": self._correct / self._items}
