"""Scores of choices, batch by batch: torchmetrics counts, this file handles empty data."""

from typing import Any

import torch

from heedful.errors import UserError


class ChoiceScores:
    """Counts choices and how many are right."""

    def __init__(self) -> None:
        from torchmetrics.classification import BinaryAccuracy

        # Single precision, the library's choice, would give an accuracy of 0.9200000166893005.
        self._accuracy = BinaryAccuracy(sync_on_compute=False).set_dtype(torch.float64)
        self._items = 0

    def update(self, chosen: list[int], right: list[int]) -> None:
        """Count a batch; choices are numbered from 0."""
        if chosen:
            hits = torch.tensor(chosen) == torch.tensor(right)
            self._accuracy.update(hits.long(), torch.ones_like(hits, dtype=torch.long))
            self._items += len(chosen)

    def compute(self) -> dict[str, Any]:
        """Return ``items`` and ``accuracy``, ready for JSON.

        Raises:
            UserError: nothing was counted.
        """
        if not self._items:
            raise UserError("no items to score: the data is empty")
        return {"items": self._items, "accuracy": float(self._accuracy.compute())}
