"""Position terms of the attention scores in a compiled block."""

from typing import Any, Protocol

import torch
from torch import Tensor

from heedful.compiled.disentangled import CompiledTerms
from heedful.compiled.relative import CompiledSegments
from heedful.layers.disentangled import Distances
from heedful.layers.multihead import MultiHead
from heedful.layers.relative import SegmentPositions


class LaidOutTerms(Protocol):
    """Position terms for the sequences of one call."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor | None:
        """Return the bias of the scaled scores, or None. Shape (B, H, S, T).

        Args:
            query: shape (B, H, S, K).
            key: shape (B, H, T, K).
            tokens: slice of these tokens among all packed tokens of the call.
        """


class Terms(Protocol):
    """Position terms of one block."""

    def laid_out(self, shared: Any) -> LaidOutTerms:
        """Lay the terms out for a call, given the information that all blocks share."""


def compiled_terms(
    heads: MultiHead, distances: Distances | None, dtype: torch.dtype
) -> Terms | None:
    """Return the position terms of a block, or None if it has none."""
    if isinstance(heads.distance_embedding, SegmentPositions):
        return CompiledSegments(heads, heads.distance_embedding, dtype)
    if distances is None or heads.disentangled is None:
        return None
    return CompiledTerms(heads, distances, dtype)
