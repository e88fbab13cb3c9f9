"""What distances and segments add to the scores of a compiled XLNet; see ``layers/relative.py``.

Shapes: B sequences of one length T, N the longest, R distances of the longest: 2 * N - 1, H heads,
K head width, D model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from heedful.layers.multihead import MultiHead
from heedful.layers.relative import SegmentPositions, meet, shifted


class Told(NamedTuple):
    """What all blocks are told of the tokens of a call."""

    vectors: Tensor
    """Of each distance from N - 1 down to 1 - N. Shape (R, D)."""
    types: Tensor | None
    """The segment of each token of all sequences, one after the other; None where all are one."""


class LaidOutSegments(NamedTuple):
    """What the queries of a block meet, for sequences of up to N tokens."""

    table: Tensor
    """The other segment, then each distance. Shape (H, 1 + R, K)."""
    offset: Tensor
    """Added to the products. Shape (H, 1, 1 + R)."""
    types: Tensor | None
    """See ``Told``."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor:
        """Return what is added to the scaled scores. Shape (B, H, T, T).

        Args:
            query: shape (B, H, T, K).
            key: shape (B, H, T, K).
            tokens: which of all tokens these are.
        """
        count, _, length, _ = query.shape
        spare = self.table.shape[1] // 2 - length  # distances that are too great, on each side
        table, offset = self.table, self.offset
        if spare:
            kept = slice(1 + spare, self.table.shape[1] - spare)
            table = torch.cat([table[:, :1], table[:, kept]], 1)
            offset = torch.cat([offset[..., :1], offset[..., kept]], 2)
        products = meet(query, table, offset)
        bias = shifted(products, length)
        if self.types is None:
            return bias
        types = self.types[tokens].view(count, length)
        apart = (types[:, None, :, None] != types[:, None, None]).to(bias.dtype)
        return torch.addcmul(bias, apart, products[..., :1])


class CompiledSegments:
    """Distances and segments, as a block knows them.

    Args:
        heads: the attention of the block.
        positions: what it knows of them.
        dtype: what attention is computed in.
    """

    def __init__(self, heads: MultiHead, positions: SegmentPositions, dtype: torch.dtype) -> None:
        self.positions, self.query_bias, self.dtype = positions, heads.query.bias, dtype

    def laid_out(self, told: Told) -> LaidOutSegments:
        """Return what queries meet in a call."""
        divided = told.types is not None
        both = self.positions.table(self.query_bias, told.vectors, divided)
        table, offset = (each.to(self.dtype) for each in both)
        return LaidOutSegments(table, offset, told.types)
