"""How often the right text is among the nearest ones.

Shapes: N pairs, M different second texts, D width of a vector.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heedful.errors import UserError

DEPTHS = (1, 5, 10)
"""The k of recall@k."""

_TOGETHER = 256
"""Queries that are compared with all candidates at once."""


class Ranked(NamedTuple):
    """How the candidates rank for one text."""

    nearest: int
    """The number of the nearest candidate, from 0."""
    rank: int
    """The place of the right candidate among all, from 1."""


def partners(queries: Tensor, candidates: Tensor, right: Sequence[int]) -> Iterator[Ranked]:
    """Rank the candidates of each query by the cosine.

    Of candidates that are equally near, the earlier one is the nearer: a model that gives all texts
    the same vector finds the first candidate for every one.

    Args:
        queries: vectors of length 1. Shape (N, D).
        candidates: the same. Shape (M, D).
        right: the number of each query's right candidate.

    Raises:
        UserError: a vector is not of numbers.
    """
    numbers, partner = torch.arange(len(candidates)), torch.tensor(right)[:, None]  # (N, 1)
    wide = candidates.double()
    for start in range(0, len(queries), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        # Products of equal vectors may differ in their last bits, by where they stand.
        cosines = (queries[rows].double() @ wide.T).float()  # (256, M)
        if not cosines.isfinite().all():
            raise UserError("a vector is not of numbers; the model is damaged")
        partner_cosines = cosines.gather(1, partner[rows])
        before = (cosines > partner_cosines) | (
            cosines.eq(partner_cosines) & (numbers < partner[rows])
        )
        ranks = before.sum(1) + 1
        yield from map(Ranked, cosines.argmax(1).tolist(), ranks.tolist())


class NeighbourScores:
    """Collects the vectors of pairs, and scores how well the first texts find the second ones.

    A second text of several pairs is one candidate. Equally near ones are told apart as
    `partners` says.
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
        if not self._right:
            raise UserError("no items to score: the data is empty")
        total = len(self._candidates)
        if total < 2:
            raise UserError("every pair has the same second text: there is nothing to find")
        vectors = torch.stack(list(self._candidates.values()))  # (M, D)
        ranked = list(partners(torch.cat(self._queries), vectors, self._right))
        recalls = {
            f"recall_at_{depth}": sum(each.rank <= depth for each in ranked) / len(ranked)
            for depth in DEPTHS
        }
        return {"items": len(ranked), "candidates": total, **recalls}
