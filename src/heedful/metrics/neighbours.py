"""Retrieval scores: how often the correct text is among the nearest neighbours.

Shapes: N pairs, M distinct second texts, D embedding size.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heedful.errors import UserError

DEPTHS = (1, 5, 10)
"""The k of recall@k."""

_QUERY_BATCH_SIZE = 256
"""Number of queries in a batch, compared with all candidates at once."""


class Ranked(NamedTuple):
    """Ranking of the candidates for one query."""

    nearest: int
    """Index of the nearest candidate."""
    rank: int
    """Rank of the correct candidate, from 1."""


def rank_candidates(
    queries: Tensor, candidates: Tensor, targets: Sequence[int]
) -> Iterator[Ranked]:
    """Rank the candidates for each query by cosine similarity.

    Ties go to the earlier candidate: a model that gives all texts the same vector ranks the first
    candidate highest for every query.

    Args:
        queries: unit vectors. Shape (N, D).
        candidates: unit vectors. Shape (M, D).
        targets: the index of each query's correct candidate.

    Yields:
        The ranking for each query.

    Raises:
        UserError: a cosine similarity is not finite.
    """
    indices, partner = torch.arange(len(candidates)), torch.tensor(targets)[:, None]  # (N, 1)
    candidates_double = candidates.double()
    for start in range(0, len(queries), _QUERY_BATCH_SIZE):
        rows = slice(start, start + _QUERY_BATCH_SIZE)
        # Dot products of equal vectors may differ in their last bits, depending on their position
        # in the matrix: multiply in double precision, then round.
        cosines = (queries[rows].double() @ candidates_double.T).float()  # (256, M)
        if not cosines.isfinite().all():
            raise UserError("a vector has values that are not numbers; the model is damaged")
        partner_cosines = cosines.gather(1, partner[rows])
        is_above = (cosines > partner_cosines) | (
            cosines.eq(partner_cosines) & (indices < partner[rows])
        )
        ranks = is_above.sum(1) + 1
        yield from map(Ranked, cosines.argmax(1).tolist(), ranks.tolist())


class RetrievalScores:
    """Collects embeddings of text pairs, and scores the retrieval of second texts by first texts.

    A second text that occurs in several pairs is one candidate. Ties are broken as in
    `rank_candidates`.
    """

    def __init__(self) -> None:
        self._queries: list[Tensor] = []
        self._candidates: dict[str, Tensor] = {}
        self._right: list[int] = []
        self._indices: dict[str, int] = {}

    def update(self, queries: Tensor, candidates: Tensor, texts: Sequence[str]) -> None:
        """Add a batch of pairs.

        Args:
            queries: embeddings of the first texts. Shape (N, D).
            candidates: embeddings of the second texts. Shape (N, D).
            texts: the second texts.
        """
        self._queries.append(queries)
        for text, vector in zip(texts, candidates, strict=True):
            self._right.append(self._indices.setdefault(text, len(self._indices)))
            self._candidates.setdefault(text, vector)

    def compute(self) -> dict[str, Any]:
        """Return ``items``, ``candidates`` and ``recall_at_k`` for each k, ready for JSON.

        Raises:
            UserError: no pair was added, or there is only one candidate.
        """
        if not self._right:
            raise UserError("no items to score: the data is empty")
        total = len(self._candidates)
        if total < 2:
            raise UserError("every pair has the same second text: there is nothing to find")
        vectors = torch.stack(list(self._candidates.values()))  # (M, D)
        ranked = list(rank_candidates(torch.cat(self._queries), vectors, self._right))
        recalls = {
            f"recall_at_{depth}": sum(each.rank <= depth for each in ranked) / len(ranked)
            for depth in DEPTHS
        }
        return {"items": len(ranked), "candidates": total, **recalls}
