"""Attention in which contents meet positions (He et al. 2021, "DeBERTa", section 3.1).

The score of a query i and a key j is, beside that of their contents, that of the content i with the
distance from j to i as a key, and that of the content j with this distance as a query. Distances
have vectors, which all blocks share; each block has its own projections of them.

Shapes: B batch, H heads, S query length, T key length, N length of a text, K head width, D model
width, P half the number of vectors.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear
from heedful.layers.positions import by_distance

TERMS = ("c2p", "p2c")
"""The reference's names: content to position, position to content."""


class Distances(nn.Module):
    """A learnt vector for each distance from -P to P - 1, or for each range of distances.

    Args:
        reach: P.
        width: D.
        most: with ranges, the greatest distance that has one of its own. Those up to P / 2 are of
            one distance each, the others grow. None for no ranges.
        eps: added to the variance by the normalisation of the vectors; None where they have none.
    """

    def __init__(
        self, reach: int, width: int, *, most: int | None = None, eps: float | None = None
    ) -> None:
        super().__init__()
        self.reach, self.most = reach, most
        self.vectors = nn.Embedding(2 * reach, width)
        self.LayerNorm = None if eps is None else nn.LayerNorm(width, eps=eps)

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the distances from 1 - N to N - 1. Shape (2 * N - 1, D)."""
        return self._normal(self.vectors(self.rows(length)))

    def all(self) -> Tensor:
        """Return the vectors of all distances from -P to P - 1. Shape (2 * P, D)."""
        return self._normal(self.vectors.weight)

    def _normal(self, vectors: Tensor) -> Tensor:
        if self.LayerNorm is None:
            return vectors
        # The table may be kept wider than the weights that the layers compute with.
        normal: Tensor = self.LayerNorm(vectors.to(self.LayerNorm.weight.dtype))
        return normal

    def rows(self, length: int) -> Tensor:
        """Return the number of the vector of each of these distances. Shape (2 * N - 1,)."""
        distances = torch.arange(2 * length - 1, device=self.vectors.weight.device) + (1 - length)
        if self.most is not None:
            distances = self._ranges(distances)
        return (distances + self.reach).clamp(0, 2 * self.reach - 1)

    def _ranges(self, distances: Tensor) -> Tensor:
        """Return the signed numbers of the ranges of distances; any shape.

        In whole numbers, which are the same in whatever computes an exported model.
        """
        single = self.reach // 2
        size = distances.abs()
        number = size.clamp(max=single)
        starts = torch.tensor(_starts(single, self.most or 0), device=distances.device)
        number = number + (size[..., None] >= starts).sum(-1)
        return number * distances.sign()


def _starts(single: int, most: int) -> list[int]:
    """Return the least distance of each range above those of one distance each.

    A distance d is in the range ``single`` + ceil(log(d / single) / log(most / single) * (single -
    1)), so that the next range begins just after a d for which that is a whole number.
    """
    if single == 1:
        return []
    growth = most / single
    ends = (single * growth ** (number / (single - 1)) for number in range(single + 1))
    return [math.floor(end + 1e-6) + 1 for end in ends]


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """Which terms the scores of a model have, and what they are made with."""

    names: tuple[str, ...]
    """Of ``TERMS``."""
    shares: bool = False
    """Whether distances are projected as contents are, and not by layers of their own."""
    key_bias: bool = True
    """Whether the projection of distances as keys has a bias."""
    dropout: float = 0.0
    """Probability with which a value of their vectors is dropped in training."""


class Disentangled(nn.Module):
    """What a block adds to the scores of its contents.

    Args:
        terms: which terms there are.
        width: D.
        heads: H.
        head_width: K.
    """

    def __init__(self, terms: Terms, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.terms = terms.names
        self.dropout = Dropout(terms.dropout)
        self.head_width = head_width
        rows = heads * head_width
        projected = () if terms.shares else terms.names
        self.key = Linear(width, rows, bias=terms.key_bias) if "c2p" in projected else None
        self.query = Linear(width, rows) if "p2c" in projected else None

    def layers(self) -> list[nn.Linear]:
        """Return the projections that it has of its own."""
        return [layer for layer in (self.key, self.query) if layer is not None]

    def project(
        self, vectors: Tensor, query: nn.Linear, key: nn.Linear
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the vectors of distances as keys and as queries, those of them that meet contents.

        Args:
            vectors: shape (..., D).
            query: how contents are projected, which counts for distances, too, where they share it.
            key: the same.

        Returns:
            Each of shape (..., H, K).
        """
        vectors = self.dropout(vectors.to(key.weight.dtype))
        keys = (self.key or key)(vectors) if "c2p" in self.terms else None
        queries = (self.query or query)(vectors) if "p2c" in self.terms else None
        shape = (*vectors.shape[:-1], -1, self.head_width)
        return (
            None if keys is None else keys.view(shape),
            None if queries is None else queries.view(shape),
        )


def disentangled_bias(
    query: Tensor, key: Tensor, keys: Tensor | None, queries: Tensor | None
) -> Tensor | None:
    """Return what distances add to the scaled scores; None if nothing. Shape (B, H, S, T).

    Args:
        query: of the contents, multiplied by what all scores are. Shape (B, H, S, K).
        key: of the contents, multiplied by the same. Shape (B, H, T, K).
        keys: of the distances from 1 - N to N - 1; see `Disentangled.project`. Shape (2 * N - 1, H,
            K).
        queries: the same.
    """
    lengths = query.shape[2], key.shape[2]
    root = math.sqrt(query.shape[3])
    bias = None
    if keys is not None:
        # The first query meets the last key first: the least distance comes last.
        table = _among(keys, *lengths).flip(0) / root
        bias = by_distance(query, table.to(query.dtype), lengths[1])
    if queries is not None:
        table = _among(queries, *lengths) / root
        term = by_distance(key, table.to(key.dtype), lengths[0]).mT
        bias = term if bias is None else bias + term
    return bias


def _among(vectors: Tensor, queries: int, keys: int) -> Tensor:
    """Return those of the distances from 1 - T to S - 1, of all from 1 - N to N - 1."""
    longest = (vectors.shape[0] + 1) // 2
    return vectors[longest - keys : longest - 1 + queries]
