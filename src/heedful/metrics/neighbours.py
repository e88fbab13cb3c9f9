"""How often the right text is among the nearest ones: torchmetrics counts.

Shapes: N pairs, M different second texts, D width of a vector.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.errors import UserError

DEPTHS = (1, 5, 10)
"""The k of recall@k."""

_TOGETHER = 256
"""Queries that are compared with all candidates at once."""


class NeighbourScores:
    """Collects the vectors of pairs, and scores how well the first texts find the second ones.

    A second text of several pairs is one candidate.
    """

    def __init__(self) -> None:
        self._queries: list[Tensor] = []
        self._candidates: dict[str, Tensor] = {}
        self._right: list[int] = []
        self._indices: dict[str, int] = {}

    def update(self, queries: Tensor, candidates: Tensor, texts: Sequence[str]) -> None:
        """Count pairs.

        Args:
            queries: vectors of the first texts. Shape (N, D).
            candidates: vectors of the second texts. Shape (N, D).
            texts: the second texts.
        """
        self._queries.append(queries)
        for text, vector in zip(texts, candidates, strict=True):
            self._right.append(self._indices.setdefault(text, len(self._indices)))
            self._candidates.setdefault(text, vector)

    def compute(self) -> dict[str, Any]:
        """Return ``items``, ``candidates`` and ``recall_at_k`` for each depth, ready for JSON.

        Raises:
            UserError: nothing was counted, or there is only one candidate.
        """
        from torchmetrics.classification import MulticlassAccuracy

        if not self._right:
            raise UserError("no items to score: the data is empty")
        total = len(self._candidates)
        if total < 2:
            raise UserError("every pair has the same second text: there is nothing to find")
        # Each query has one right candidate, so the accuracy among the k best is the recall@k.
        meters = {
            f"recall_at_{depth}": MulticlassAccuracy(
                num_classes=total, top_k=min(depth, total), average="micro"
            )
            for depth in DEPTHS
        }
        queries, right = torch.cat(self._queries), torch.tensor(self._right)
        vectors = torch.stack(list(self._candidates.values()))  # (M, D)
        for start in range(0, len(queries), _TOGETHER):
            scores = queries[start : start + _TOGETHER] @ vectors.T  # (256, M)
            for meter in meters.values():
                meter.update(scores, right[start : start + _TOGETHER])
        recalls = {name: float(meter.compute()) for name, meter in meters.items()}
        return {"items": len(right), "candidates": total, **recalls}
