"""The end of a sublayer of a compiled block; see ``layers.block.Residual``.

Shapes: N rows, D model width.
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.compiled.linear import Linears, concatenated
from heedful.layers.residual import Residual


class Norm(NamedTuple):
    """The arguments of a layer normalisation."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "Norm":
        """Return the arguments of a layer normalisation module."""
        shape = tuple(norm.normalized_shape)
        return cls(shape, norm.weight.detach(), norm.bias.detach(), norm.eps)


class CompiledResidual:
    """The output projection fused with the residual connection, and the layer normalisation.

    Args:
        residual: the uncompiled module.
        linears: compiles the projection.
    """

    def __init__(self, residual: Residual, linears: Linears) -> None:
        self.norm_before = residual.is_pre_norm
        self.dense = linears.after_any(*concatenated([residual.dense]))
        self.norm = Norm.of(residual.LayerNorm)

    def source(self, hidden: Tensor) -> Tensor:
        """Return the sublayer's input: ``hidden``, normalised if pre-norm. Shape (N, D)."""
        return F.layer_norm(hidden, *self.norm) if self.norm_before else hidden

    def __call__(self, inner: Tensor, hidden: Tensor) -> Tensor:
        """Return shape (N, D).

        Args:
            inner: the sublayer's values before projection. Shape (N, inner width).
            hidden: the residual. Shape (N, D).
        """
        added = self.dense(inner, hidden)
        return added if self.norm_before else F.layer_norm(added, *self.norm)
