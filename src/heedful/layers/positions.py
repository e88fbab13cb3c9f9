"""What a model knows of where its tokens stand.

A module of positions does one of three things. It gives vectors that are added to those of words:
any module that takes positions and returns vectors will do, such as an ``nn.Embedding``, whose
vectors are learnt, or ``Sinusoids``. Or it takes part in attention as ``Positions`` says: it gives
a bias of the scores, or it rotates queries and keys. A block without such a module knows positions
from its input alone, or not at all.

Shapes: B batch, H heads, S query length, T key length, K head width, D model width, P number of
positions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Positions(Protocol):
    """How positions take part in attention. The first key of all stands at position 0."""

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        """Return queries or keys as they are at their positions.

        Keys are kept rotated, so that those of earlier tokens need not be rotated again.

        Args:
            vectors: shape (B, H, S, K).
            start: the position of the first.
        """

    def bias(
        self,
        query: Tensor,
        key: Tensor,
        *,
        start: int,
        query_bias: Tensor | None = None,
        relations: "Relations | None" = None,
    ) -> Tensor | None:
        """Return what is added to the scaled scores, or None if nothing is.

        Args:
            query: shape (B, H, S, K).
            key: those of the earlier tokens and of these. Shape (B, H, T, K).
            start: the position of the first query.
            query_bias: what the queries' linear layer added. Shape (H * K,).
            relations: what all blocks are told of this call's tokens, where the module needs it.

        Returns:
            Broadcastable to (B, H, S, T), of 4 dimensions.
        """

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Forget all heads but some, given by their places among those that are left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relations:
    """What blocks are told, once a call, of how tokens stand to each other.

    Queries are those of S tokens in a row, the last of the T keys, and perhaps further ones, which
    stand where tokens of the row stand.
    """

    vectors: Tensor
    """Of each distance from T - 1 down to 1 - S. Shape (1, T + S - 1, D); of both directions, for
    the two halves of the batch, (2, T + S - 1, D)."""
    apart: Tensor | None
    """Bool, True where a key is of another segment than the query. Shape (B, 1, queries, T); None
    where all are of one."""
    places: Tensor | None
    """The places of the further queries in the row. Shape (B, P), int64."""
    types: Tensor | None
    """The segment of each token of the row, by a number. Shape (B, S); None where all are one."""
    real: Tensor | None
    """Bool, True for a token, not padding. Shape (B, S); None without padding."""
    whole: bool
    """Whether each token attends to all tokens of its sequence and to no others, from one side."""


class Sinusoids(nn.Module):
    """Vectors of positions that are not learnt; see ``sinusoids``.

    Args:
        width: D, even.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        """Return shape (..., D) for whole numbers of any shape."""
        return sinusoids(positions, self.width)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return what tells positions apart (Vaswani et al. 2017, section 3.5).

    The sines stand before the cosines, as in Marian, and not in turn, as in the paper: this only
    permutes the model's width. They are rounded to float32, as Marian's files have them.

    Args:
        positions: whole numbers. Any shape.
        width: D, even.

    Returns:
        Shape (..., D), float32.
    """
    powers = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    angles = positions[..., None] / 10000**powers  # (..., D / 2)
    return torch.cat([angles.sin(), angles.cos()], -1).float()


class RelativePositions(nn.Embedding):
    """A learnt vector for each distance from 1 - P to P - 1, as a bias of the scores.

    The query alone meets it (Shaw et al. 2018, section 3.2), or the query and the key (Huang et al.
    2020, method 4).

    Args:
        num_positions: P.
        head_width: K.
        with_key: whether the key meets it, too.
        scaled: whether the bias is divided by the root of K, as the other scores are.
    """

    def __init__(
        self, num_positions: int, head_width: int, *, with_key: bool = False, scaled: bool = True
    ) -> None:
        super().__init__(2 * num_positions - 1, head_width)
        self.with_key = with_key
        self.scaled = scaled

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        """Return the vectors as they are."""
        return vectors

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Change nothing: all heads share the vectors."""

    def bias(
        self,
        query: Tensor,
        key: Tensor,
        *,
        start: int,
        query_bias: Tensor | None = None,
        relations: Relations | None = None,
    ) -> Tensor:
        """Return the bias for the distance from each key to each query. Shape (B, H, S, T).

        Each vector meets each distance in one matrix product; the products of a row are then
        shifted into their places as a view, without gathering them (Huang et al. 2018, section
        3.4.1).

        Args:
            query: shape (B, H, S, K).
            key: shape (B, H, T, K).
            start: the position of the first query.
            query_bias: not read.
            relations: not read.
        """
        queries, keys = query.shape[2], key.shape[2]
        middle = self.num_embeddings // 2  # the row of distance 0
        # From the last key's distance to the first query, to the first key's to the last query.
        table = self.weight[middle + start - keys + 1 : middle + start + queries]  # (S + T - 1, K)
        table = table.to(query.dtype)
        if self.scaled:
            table = table / math.sqrt(query.shape[-1])
        bias = by_distance(query, table.flip(0), keys)
        if self.with_key:
            bias = bias + by_distance(key, table, queries).mT
        return bias


def by_distance(vectors: Tensor, table: Tensor, columns: int) -> Tensor:
    """Return the products of vector i with row ``j + rows - 1 - i`` of a table.

    Args:
        vectors: shape (B, H, rows, K).
        table: shape (rows + columns - 1, K), or (rows + columns - 1, H, K) for one a head.
        columns: how many j there are.

    Returns:
        Shape (B, H, rows, columns).
    """
    batch, heads, rows, width = vectors.shape
    # One column more than there are distances: read on as rows that are one shorter, each row
    # begins one place before the one above it.
    if table.ndim == 2:
        products = vectors @ F.pad(table, (0, 0, 1, 0)).mT  # (B, H, rows, rows + columns)
    else:
        table = F.pad(table, (0, 0, 0, 0, 1, 0)).permute(1, 2, 0)  # (H, K, rows + columns)
        together = vectors.transpose(0, 1).reshape(heads, batch * rows, width)
        products = (together @ table).view(heads, batch, rows, -1).transpose(0, 1)
    shifted = products.flatten(2)[:, :, rows:]
    return shifted.view(*shifted.shape[:2], rows, -1)[..., :columns]


class BucketedPositions(nn.Embedding):
    """A learnt number for each head and each range of distances, as a bias of the scores.

    It is the same for all queries and keys, so that all blocks of a stack can share one (Raffel et
    al. 2020, section 2.1). Half of the buckets are for keys after the query. Half of each half are
    for one distance each; the others' ranges grow until ``max_distance``, from which on all
    distances share the last.

    Args:
        num_buckets: how many ranges there are; a multiple of 4.
        num_heads: H.
        max_distance: the least distance of those that share the last bucket.
        spare: how many more numbers each head has, which no distance has: files may hold such.
    """

    def __init__(
        self, num_buckets: int, num_heads: int, *, max_distance: int = 128, spare: int = 0
    ) -> None:
        super().__init__(num_buckets + spare, num_heads)
        self.num_buckets = num_buckets
        self.max_distance = max_distance

    def bias(self, queries: int, keys: int, *, start: int = 0) -> Tensor:
        """Return what is added to the scaled scores. Shape (1, H, S, T).

        Args:
            queries: S.
            keys: T. The first stands at position 0.
            start: the position of the first query.
        """
        count = queries + keys - 1
        distances = torch.arange(count, device=self.weight.device) + (1 - start - queries)
        numbers = F.embedding(self._buckets(distances), self.weight).T  # (H, S + T - 1)
        # Repeated with one more between, and read as rows of as many as there are distances, each
        # row begins one place before the one above it.
        rows = F.pad(numbers, (0, 1)).repeat(1, queries)[:, queries - 1 :]
        return rows[:, : queries * count].view(1, -1, queries, count)[..., :keys]

    def _buckets(self, distances: Tensor) -> Tensor:
        """Return the numbers of the ranges of distances from queries to keys; any shape.

        In whole numbers, which are the same in whatever computes an exported model.
        """
        after = self.num_buckets // 2
        single = after // 2
        size = distances.abs()
        bucket = size.clamp(max=single)
        for number in range(1, after - single):
            # Ranges grow by a factor; without rounding, where it gives a whole number.
            least = single * (self.max_distance / single) ** (number / (after - single))
            bucket = bucket + (size >= math.ceil(least - 1e-6))
        return torch.where(distances > 0, after + bucket, bucket)


def _none(num_positions: int, head_width: int, *, scaled: bool = True) -> None:
    """Return what attention knows of positions that are added to words: nothing."""


POSITIONS: dict[str, Callable[..., Positions | None]] = {
    "absolute": _none,
    "relative_key": RelativePositions,
    "relative_key_query": partial(RelativePositions, with_key=True),
}
"""The reference's names, to what makes a module for attention out of P, K and ``scaled``."""
