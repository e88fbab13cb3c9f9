"""What distances add to the scores of a compiled block; see ``layers/disentangled.py``.

Their vectors are projected once, when the block is compiled, and laid out once for each call.

Shapes: B sequences of one length T, S queries of each, N the longest, H heads, K head width, P half
the number of vectors.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.layers.disentangled import Distances
from heedful.layers.multihead import MultiHead


class LaidOut(NamedTuple):
    """The vectors of distances as keys and as queries, for sequences of up to N tokens.

    Before the first stands a column that is not used.
    """

    keys: Tensor | None
    """From the greatest distance, N - 1, to the least. Shape (H, K, 2 * N)."""
    queries: Tensor | None
    """From the least to the greatest. Shape (H, K, 2 * N)."""
    longest: int
    """N."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor | None:
        """Return what is added to the scaled scores; None if nothing is. Shape (B, H, S, T).

        Args:
            query: shape (B, H, S, K), where S is T, or 1 for the first token alone.
            key: shape (B, H, T, K).
            tokens: not read.
        """
        queries, keys = query.shape[2], key.shape[2]
        bias = None
        if self.keys is not None:
            table = self.keys[:, :, self.longest - queries : self.longest + keys]
            bias = _by_distance(query, table, keys)
        if self.queries is not None:
            table = self.queries[:, :, self.longest - keys : self.longest + queries]
            if queries == 1:  # one distance for each key
                vectors = table[:, :, 1:].flip(2).mT.to(key.dtype)  # (H, T, K)
                term = (key * vectors).sum(-1)[:, :, None]
            else:
                term = _by_distance(key, table, queries).mT
            bias = term if bias is None else bias + term
        return bias


def _by_distance(vectors: Tensor, table: Tensor, columns: int) -> Tensor:
    """Return the products with the vectors of the distances that each row has to each column.

    Args:
        vectors: shape (B, H, rows, K).
        table: shape (H, K, rows + columns).
        columns: how many there are.

    Returns:
        Shape (B, H, rows, columns).
    """
    batch, heads, rows, width = vectors.shape
    together = vectors.transpose(0, 1).reshape(heads, batch * rows, width)
    products = torch.bmm(together, table).view(heads, batch, -1)
    shifted = products[:, :, rows:].view(heads, batch, rows, -1)
    return shifted[..., :columns].transpose(0, 1)


class CompiledTerms:
    """The vectors of all distances, as a block has them.

    Args:
        heads: the attention of the block.
        distances: the vectors that all blocks share.
        dtype: what attention is computed in.
    """

    def __init__(self, heads: MultiHead, distances: Distances, dtype: torch.dtype) -> None:
        assert heads.disentangled is not None
        with torch.no_grad():
            keys, queries = heads.disentangled.project(distances.all(), heads.query, heads.key)
        root = math.sqrt(heads.head_width)
        # The queries of contents have the factor of the scores; those of distances get it here.
        factors = (1 / root, heads.score_factor / root)
        self.keys, self.queries = (
            None if each is None else (each.permute(1, 2, 0) * factor).to(dtype)  # (H, K, 2 * P)
            for each, factor in zip((keys, queries), factors, strict=True)
        )

    def laid_out(self, numbers: Tensor) -> LaidOut:
        """Lay the vectors out for sequences of up to N tokens.

        Args:
            numbers: of each distance from 1 - N to N - 1 the number of its vector. Shape (2 * N -
                1,).
        """
        ascending = torch.cat([numbers[:1], numbers])
        descending = torch.cat([numbers[:1], numbers.flip(0)])
        return LaidOut(
            None if self.keys is None else self.keys.index_select(2, descending),
            None if self.queries is None else self.queries.index_select(2, ascending),
            (len(numbers) + 1) // 2,
        )
