"""Disentangled attention (He et al. 2021, "DeBERTa", section 3.1).

The score of query i and key j is a sum of three terms. Content to content is the usual score.
Content to position is the product of query i with the distance from j to i as a key. Position to
content is the product of key j with this distance as a query. All blocks share the distance
embeddings; each block has its own projections of them.

Shapes: B batch, H heads, S query length, T key length, N length of a text, K head width, D model
width, P half the number of vectors.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, in_dtype_of
from heedful.layers.positions import relative_scores

TERMS = ("c2p", "p2c")
"""The reference's names: content to position, position to content."""


class Distances(nn.Module):
    """Learnt embeddings of the distances from -P to P - 1, or of buckets of distances.

    Args:
        num_distances: P.
        width: D.
        max_distance: the distance from which on all distances share the last bucket. Up to P / 2,
            each bucket holds one distance; beyond, the buckets grow. None for no buckets.
        eps: added to the variance by the normalisation of the embeddings; None for no
            normalisation.
    """

    def __init__(
        self,
        num_distances: int,
        width: int,
        *,
        max_distance: int | None = None,
        eps: float | None = None,
    ) -> None:
        super().__init__()
        self.num_distances, self.max_distance = num_distances, max_distance
        self.vectors = nn.Embedding(2 * num_distances, width)
        self.LayerNorm = None if eps is None else nn.LayerNorm(width, eps=eps)

    def forward(self, length: int) -> Tensor:
        """Return the embeddings of the distances from 1 - N to N - 1. Shape (2 * N - 1, D)."""
        return self._normalise(self.vectors(self.rows(length)))

    def all(self) -> Tensor:
        """Return the embeddings of all distances from -P to P - 1. Shape (2 * P, D)."""
        return self._normalise(self.vectors.weight)

    def _normalise(self, vectors: Tensor) -> Tensor:
        if self.LayerNorm is None:
            return vectors
        # The table may have a wider dtype than the weights of the layers.
        normalised: Tensor = self.LayerNorm(vectors.to(self.LayerNorm.weight.dtype))
        return normalised

    def rows(self, length: int) -> Tensor:
        """Return the embedding index of each distance from 1 - N to N - 1. Shape (2 * N - 1,)."""
        distances = torch.arange(2 * length - 1, device=self.vectors.weight.device) + (1 - length)
        if self.max_distance is not None:
            distances = self._ranges(distances)
        return (distances + self.num_distances).clamp(0, 2 * self.num_distances - 1)

    def _ranges(self, distances: Tensor) -> Tensor:
        """Return the signed bucket of each distance; any shape.

        Integer arithmetic gives the same buckets in every runtime of an exported model.
        """
        num_exact = self.num_distances // 2
        magnitude = distances.abs()
        number = magnitude.clamp(max=num_exact)
        starts = torch.tensor(_starts(num_exact, self.max_distance or 0), device=distances.device)
        number = number + (magnitude[..., None] >= starts).sum(-1)
        return number * distances.sign()


def _starts(num_exact: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each bucket that holds several distances.

    A distance d is in bucket n + ceil(log(d / n) / log(max_distance / n) * (n - 1)), where n is
    ``num_exact``. So a new bucket begins just after a d whose logarithmic term is an integer.
    """
    if num_exact == 1:
        return []
    growth = max_distance / num_exact
    ends = (num_exact * growth ** (number / (num_exact - 1)) for number in range(num_exact + 1))
    return [math.floor(end + 1e-6) + 1 for end in ends]


@dataclass(frozen=True, kw_only=True, slots=True)
class DisentangledTerms:
    """The position terms of a model's attention scores."""

    names: tuple[str, ...]
    """A subset of ``TERMS``."""
    shares: bool = False
    """Whether distances share the content projections instead of having their own."""
    key_bias: bool = True
    """Whether the projection of distances to keys has a bias."""
    dropout: float = 0.0
    """Dropout probability of the distance embeddings in training."""


class Disentangled(nn.Module):
    """The position terms of one block's scores.

    Args:
        terms: the terms.
        width: D.
        heads: H.
        head_width: K.
    """

    def __init__(self, terms: DisentangledTerms, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.terms = terms.names
        self.dropout = Dropout(terms.dropout)
        self.head_width = head_width
        out_features = heads * head_width
        projected = () if terms.shares else terms.names
        self.key = Linear(width, out_features, bias=terms.key_bias) if "c2p" in projected else None
        self.query = Linear(width, out_features) if "p2c" in projected else None

    def layers(self) -> list[nn.Linear]:
        """Return the projections that are not shared with the contents."""
        return [layer for layer in (self.key, self.query) if layer is not None]

    def project(
        self, vectors: Tensor, query: nn.Linear, key: nn.Linear
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the distances projected to keys and to queries; None for a term not in use.

        Args:
            vectors: distance embeddings. Shape (..., D).
            query: the content projection to queries, used if it is shared.
            key: the content projection to keys, used if it is shared.

        Returns:
            Each of shape (..., H, K).
        """
        vectors = self.dropout(in_dtype_of(key, vectors))
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
    """Return the position bias of the scaled scores; None without terms. Shape (B, H, S, T).

    Args:
        query: content queries, including the score factor. Shape (B, H, S, K).
        key: content keys. Shape (B, H, T, K).
        keys: the distances from 1 - N to N - 1 as keys; see `Disentangled.project`. Shape (2 * N -
            1, H, K).
        queries: the distances as queries, including the score factor. The same shape.
    """
    lengths = query.shape[2], key.shape[2]
    sqrt_width = math.sqrt(query.shape[3])
    bias = None
    if keys is not None:
        # Descending: the first query has the last key at the smallest distance.
        table = _select_distances(keys, *lengths).flip(0) / sqrt_width
        bias = relative_scores(query, table.to(query.dtype), lengths[1])
    if queries is not None:
        table = _select_distances(queries, *lengths) / sqrt_width
        term = relative_scores(key, table.to(key.dtype), lengths[0]).mT
        bias = term if bias is None else bias + term
    return bias


def _select_distances(vectors: Tensor, queries: int, keys: int) -> Tensor:
    """Select the distances from 1 - T to S - 1 from all distances, 1 - N to N - 1."""
    longest = (vectors.shape[0] + 1) // 2
    return vectors[longest - keys : longest - 1 + queries]
