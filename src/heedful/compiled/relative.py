"""Distance and segment terms of the scores in a compiled XLNet; see ``layers/relative.py``.

Shapes: B sequences of one length T, N the longest, R distances of the longest: 2 * N - 1, H heads,
K head width, D model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from heedful.layers.multihead import MultiHead
from heedful.layers.relative import SegmentPositions, products_with, relative_shift


class SharedRelations(NamedTuple):
    """Distances and segments of a call's tokens, shared by all blocks."""

    vectors: Tensor
    """Embeddings of the distances from N - 1 down to 1 - N. Shape (R, D)."""
    types: Tensor | None
    """Segment ids of the packed tokens of all sequences; None with a single segment."""


class LaidOutSegments(NamedTuple):
    """The vectors to multiply a block's queries with, for sequences of up to N tokens."""

    table: Tensor
    """The other segment, then each distance. Shape (H, 1 + R, K)."""
    offset: Tensor
    """Added to the products. Shape (H, 1, 1 + R)."""
    types: Tensor | None
    """See ``SharedRelations``."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor:
        """Return the bias of the scaled scores. Shape (B, H, T, T).

        Args:
            query: shape (B, H, T, K).
            key: shape (B, H, T, K).
            tokens: slice of these tokens among all packed tokens.
        """
        count, _, length, _ = query.shape
        num_unneeded = (
            self.table.shape[1] // 2 - length
        )  # number of unneeded distances on each side
        table, offset = self.table, self.offset
        if num_unneeded:
            kept = slice(1 + num_unneeded, self.table.shape[1] - num_unneeded)
            table = torch.cat([table[:, :1], table[:, kept]], 1)
            offset = torch.cat([offset[..., :1], offset[..., kept]], 2)
        products = products_with(query, table, offset)
        bias = relative_shift(products, length)
        if self.types is None:
            return bias
        types = self.types[tokens].view(count, length)
        other_segment = (types[:, None, :, None] != types[:, None, None]).to(bias.dtype)
        return torch.addcmul(bias, other_segment, products[..., :1])


class CompiledSegments:
    """Distance and segment terms of one block.

    Args:
        heads: the attention of the block.
        positions: its position module.
        dtype: dtype of attention.
    """

    def __init__(self, heads: MultiHead, positions: SegmentPositions, dtype: torch.dtype) -> None:
        self.positions, self.query_bias, self.dtype = positions, heads.query.bias, dtype

    def laid_out(self, shared: SharedRelations) -> LaidOutSegments:
        """Return the vectors to multiply the queries of a call with."""
        divided = shared.types is not None
        tables = self.positions.table(self.query_bias, shared.vectors, divided)
        table, offset = (each.to(self.dtype) for each in tables)
        return LaidOutSegments(table, offset, shared.types)
