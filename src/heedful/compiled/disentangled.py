"""Position terms of the scores in a compiled DeBERTa; see ``layers/disentangled.py``.

The distance embeddings are projected once, when the block is compiled, and laid out once per call.

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
    """The distances projected to keys and queries, for sequences of up to N tokens.

    The first column is not used.
    """

    keys: Tensor | None
    """Keys, in descending order of distance from N - 1. Shape (H, K, 2 * N)."""
    queries: Tensor | None
    """Queries, in ascending order of distance. Shape (H, K, 2 * N)."""
    longest: int
    """N."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor | None:
        """Return the bias of the scaled scores, or None. Shape (B, H, S, T).

        Args:
            query: shape (B, H, S, K), where S is T, or 1 for only the first token.
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
    """Return the product of each vector with the distance between its row and each column.

    Args:
        vectors: shape (B, H, rows, K).
        table: distance vectors. Shape (H, K, rows + columns).
        columns: number of columns.

    Returns:
        Shape (B, H, rows, columns).
    """
    batch, heads, rows, width = vectors.shape
    by_head = vectors.transpose(0, 1).reshape(heads, batch * rows, width)
    products = torch.bmm(by_head, table).view(heads, batch, -1)
    shifted = products[:, :, rows:].view(heads, batch, rows, -1)
    return shifted[..., :columns].transpose(0, 1)


class CompiledTerms:
    """The distance embeddings, projected by one block.

    Args:
        heads: the attention of the block.
        distances: distance embeddings shared by all blocks.
        dtype: dtype of attention.
    """

    def __init__(self, heads: MultiHead, distances: Distances, dtype: torch.dtype) -> None:
        assert heads.disentangled is not None
        with torch.no_grad():
            keys, queries = heads.disentangled.project(distances.all(), heads.query, heads.key)
        sqrt_width = math.sqrt(heads.head_width)
        # The content queries include the score factor; apply it to the distance queries, too.
        factors = (1 / sqrt_width, heads.score_factor / sqrt_width)
        self.keys, self.queries = (
            None if each is None else (each.permute(1, 2, 0) * factor).to(dtype)  # (H, K, 2 * P)
            for each, factor in zip((keys, queries), factors, strict=True)
        )

    def laid_out(self, indices: Tensor) -> LaidOut:
        """Lay the vectors out for sequences of up to N tokens.

        Args:
            indices: embedding index of each distance from 1 - N to N - 1. Shape (2 * N - 1,).
        """
        ascending = torch.cat([indices[:1], indices])
        descending = torch.cat([indices[:1], indices.flip(0)])
        return LaidOut(
            None if self.keys is None else self.keys.index_select(2, descending),
            None if self.queries is None else self.queries.index_select(2, ascending),
            (len(indices) + 1) // 2,
        )
