"""Scores of choices, batch by batch: torchmetrics counts, this file guards its edges."""

from typing import Any

import torch

from heedful.errors import UserError


class ChoiceScores:
    """Counts choices and what is right.

    Args:
        choices: how many there are to choose from.
    """

    def __init__(self, choices: int) -> None:
        from torchmetrics.classification import MulticlassAccuracy

        self._accuracy = MulticlassAccuracy(num_classes=choices, average="micro")
        self._items = 0

    def update(self, chosen: list[int], right: list[int]) -> None:
        """Count a batch: the numbers of choices, from 0."""
        if chosen:
            self._accuracy.update(torch.tensor(chosen), torch.tensor(right))
            self._items += len(chosen)

    def compute(self) -> dict[str, Any]:
        """Return ``items`` and ``accuracy``, ready for JSON.

        Raises:
            UserError: nothing was counted.
        """
        if not self._items:
            raise UserError("no items to score: the data is empty")
        return {"items": self._items, "accuracy": float(self._accuracy.compute())}
