"""Position modules: position embeddings, and positions in attention.

A position module works in one of three ways:

- It returns position embeddings, which are added to the word embeddings. Any module that maps
  positions to vectors will do: an ``nn.Embedding`` (learnt) or ``Sinusoids``.
- It adds a bias to the attention scores; see ``Positions``.
- It rotates queries and keys; see ``Positions``.

A block without a position module gets positions only from its input, or not at all.

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
    """A position module in attention. The very first key is at position 0."""

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        """Return queries or keys rotated by their positions.

        The cache keeps rotated keys, so earlier keys need not be rotated again.

        Args:
            vectors: shape (B, H, S, K).
            start: position of the first vector.
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
        """Return the bias of the scaled scores, or None if there is none.

        Args:
            query: shape (B, H, S, K).
            key: keys of cached and new tokens. Shape (B, H, T, K).
            start: position of the first query.
            query_bias: bias of the queries' linear layer. Shape (H * K,).
            relations: relations between this call's tokens, if the module needs them.

        Returns:
            Broadcastable to (B, H, S, T), with 4 dimensions.
        """

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Prune all heads but the given ones (indices among the remaining heads)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relations:
    """Relations between the tokens of a call, computed once for all blocks.

    The queries are S consecutive tokens, the last of the T keys. Further queries may follow, at
    positions of these tokens.
    """

    vectors: Tensor
    """Embeddings of the distances from T - 1 down to 1 - S. Shape (1, T + S - 1, D). For two
    directions, one for each half of the batch, (2, T + S - 1, D)."""
    other_segment: Tensor | None
    """Bool, True where key and query belong to different segments. Shape (B, 1, queries, T); None
    with a single segment."""
    query_positions: Tensor | None
    """Positions of the further queries among the S tokens. Shape (B, P), int64."""
    segment_ids: Tensor | None
    """Segment id of each token. Shape (B, S); None with a single segment."""
    token_mask: Tensor | None
    """Bool, True for a token, False for padding. Shape (B, S); None without padding."""
    full_attention: bool
    """Whether each token attends to all tokens of its sequence and to no others, in one
    direction."""


class Sinusoids(nn.Module):
    """Fixed sinusoidal position embeddings; see ``sinusoids``.

    Args:
        width: D, even.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        """Return shape (..., D) for integers of any shape."""
        return sinusoids(positions, self.width)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return sinusoidal position embeddings (Vaswani et al. 2017, section 3.5).

    All sines come before all cosines, as in Marian. The paper interleaves them; this only permutes
    the dimensions. The values are rounded to float32, as in Marian's files.

    Args:
        positions: integers. Any shape.
        width: D, even.

    Returns:
        Shape (..., D), float32.
    """
    powers = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    angles = positions[..., None] / 10000**powers  # (..., D / 2)
    return torch.cat([angles.sin(), angles.cos()], -1).float()


class RelativePositions(nn.Embedding):
    """Relative position embeddings for the distances from 1 - P to P - 1.

    The bias is the dot product of the embedding with the query (Shaw et al. 2018, section 3.2), or
    the sum of its products with query and key (Huang et al. 2020, method 4).

    Args:
        num_positions: P.
        head_width: K.
        with_key: whether to add the product with the key.
        scaled: whether the bias is divided by the square root of K, like the other scores.
    """

    def __init__(
        self, num_positions: int, head_width: int, *, with_key: bool = False, scaled: bool = True
    ) -> None:
        super().__init__(2 * num_positions - 1, head_width)
        self.with_key = with_key
        self.scaled = scaled

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        """Return the vectors unchanged."""
        return vectors

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Do nothing: all heads share the embeddings."""

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

        One matrix product multiplies each vector with each distance embedding. The relative shift
        is a view, without gathering (Huang et al. 2018, section 3.4.1).

        Args:
            query: shape (B, H, S, K).
            key: shape (B, H, T, K).
            start: position of the first query.
            query_bias: not read.
            relations: not read.
        """
        queries, keys = query.shape[2], key.shape[2]
        middle = self.num_embeddings // 2  # the row of distance 0
        # From the distance (first query, last key) to the distance (last query, first key).
        table = self.weight[middle + start - keys + 1 : middle + start + queries]  # (S + T - 1, K)
        table = table.to(query.dtype)
        if self.scaled:
            table = table / math.sqrt(query.shape[-1])
        bias = relative_scores(query, table.flip(0), keys)
        if self.with_key:
            bias = bias + relative_scores(key, table, queries).mT
        return bias


def relative_scores(vectors: Tensor, table: Tensor, columns: int) -> Tensor:
    """Return the dot product of vector i with row ``j + rows - 1 - i`` of a table, for all i and j.

    Args:
        vectors: shape (B, H, rows, K).
        table: shape (rows + columns - 1, K), or (rows + columns - 1, H, K) for one table per head.
        columns: number of indices j.

    Returns:
        Shape (B, H, rows, columns).
    """
    batch, heads, rows, width = vectors.shape
    # Relative shift: pad with one more column than there are distances, then view the data as rows
    # that are one shorter. So each row starts one position before the row above.
    if table.ndim == 2:
        products = vectors @ F.pad(table, (0, 0, 1, 0)).mT  # (B, H, rows, rows + columns)
    else:
        table = F.pad(table, (0, 0, 0, 0, 1, 0)).permute(1, 2, 0)  # (H, K, rows + columns)
        by_head = vectors.transpose(0, 1).reshape(heads, batch * rows, width)
        products = (by_head @ table).view(heads, batch, rows, -1).transpose(0, 1)
    shifted = products.flatten(2)[:, :, rows:]
    return shifted.view(*shifted.shape[:2], rows, -1)[..., :columns]


class BucketedPositions(nn.Embedding):
    """A learnt bias of the scores for each head and each bucket of distances.

    The bias does not depend on queries and keys, so all blocks of a stack can share the module
    (Raffel et al. 2020, section 2.1). Half of the buckets are for keys after the query. In each
    half, the first half of the buckets holds one distance each. The ranges of the others grow until
    ``max_distance``; all distances from there on share the last bucket.

    Args:
        num_buckets: number of buckets; a multiple of 4.
        num_heads: H.
        max_distance: the smallest distance in the last bucket.
        spare: number of unused extra values per head, which model files may contain.
    """

    def __init__(
        self, num_buckets: int, num_heads: int, *, max_distance: int = 128, spare: int = 0
    ) -> None:
        super().__init__(num_buckets + spare, num_heads)
        self.num_buckets = num_buckets
        self.max_distance = max_distance

    def bias(self, queries: int, keys: int, *, start: int = 0) -> Tensor:
        """Return the bias of the scaled scores. Shape (1, H, S, T).

        Args:
            queries: S.
            keys: T. The first key is at position 0.
            start: position of the first query.
        """
        num_distances = queries + keys - 1
        distances = torch.arange(num_distances, device=self.weight.device) + (1 - start - queries)
        biases = F.embedding(self._buckets(distances), self.weight).T  # (H, S + T - 1)
        # Relative shift: pad by one value, repeat per query, and view the data as rows of one value
        # per distance. So each row starts one position before the row above.
        repeated = F.pad(biases, (0, 1)).repeat(1, queries)[:, queries - 1 :]
        return repeated[:, : queries * num_distances].view(1, -1, queries, num_distances)[
            ..., :keys
        ]

    def _buckets(self, distances: Tensor) -> Tensor:
        """Return the bucket of each distance from query to key; any shape.

        Integer arithmetic gives the same buckets in every runtime of an exported model.
        """
        half = self.num_buckets // 2
        exact = half // 2
        magnitude = distances.abs()
        bucket = magnitude.clamp(max=exact)
        for number in range(1, half - exact):
            # Ranges grow by a constant factor; 1e-6 absorbs rounding if the bound is an integer.
            least = exact * (self.max_distance / exact) ** (number / (half - exact))
            bucket = bucket + (magnitude >= math.ceil(least - 1e-6))
        return torch.where(distances > 0, half + bucket, bucket)


def _none(num_positions: int, head_width: int, *, scaled: bool = True) -> None:
    """Return None: attention has no module for positions that are added to word embeddings."""


POSITIONS: dict[str, Callable[..., Positions | None]] = {
    "absolute": _none,
    "relative_key": RelativePositions,
    "relative_key_query": partial(RelativePositions, with_key=True),
}
"""The reference's names, and the factories that create a module from P, K and ``scaled``."""
