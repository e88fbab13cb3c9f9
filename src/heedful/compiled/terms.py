"""What positions add to the scores of a compiled block, whichever way it knows them."""

from typing import Any, Protocol

import torch
from torch import Tensor

from heedful.compiled.disentangled import CompiledTerms
from heedful.compiled.relative import CompiledSegments
from heedful.layers.disentangled import Distances
from heedful.layers.multihead import MultiHead
from heedful.layers.relative import SegmentPositions


class LaidOutTerms(Protocol):
    """What positions add, for the sequences of one call."""

    def bias(self, query: Tensor, key: Tensor, tokens: slice) -> Tensor | None:
        """Return what is added to the scaled scores; None if nothing is. Shape (B, H, S, T).

        Args:
            query: shape (B, H, S, K).
            key: shape (B, H, T, K).
            tokens: which of all tokens of the call these are.
        """


class Terms(Protocol):
    """What positions add, as a block has it."""

    def laid_out(self, told: Any) -> LaidOutTerms:
        """Lay it out for a call, by what all blocks are told of its tokens."""


def compiled_terms(
    heads: MultiHead, distances: Distances | None, dtype: torch.dtype
) -> Terms | None:
    """Return what positions add to the scores of a block; None if nothing."""
    if isinstance(heads.distance_embedding, SegmentPositions):
        return CompiledSegments(heads, heads.distance_embedding, dtype)
    if distances is None or heads.disentangled is None:
        return None
    return CompiledTerms(heads, distances, dtype)
