"""How a part of a compiled block ends; see ``layers.block.Residual``.

Shapes: N rows, D model width.
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.compiled.linear import Linears, joined
from heedful.layers.block import Residual


class Norm(NamedTuple):
    """The arguments of a layer normalisation."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "Norm":
        """Return those of the readable form."""
        shape = tuple(norm.normalized_shape)
        return cls(shape, norm.weight.detach(), norm.bias.detach(), norm.eps)


class CompiledResidual:
    """The projection back to the model width, with the residual fused to it, and the norm.

    Args:
        residual: the readable form.
        linears: how its product is compiled.
    """

    def __init__(self, residual: Residual, linears: Linears) -> None:
        self.norm_before = residual.norm_before
        self.dense = linears.after_any(*joined([residual.dense]))
        self.norm = Norm.of(residual.LayerNorm)

    def source(self, hidden: Tensor) -> Tensor:
        """Return what the part computes from. Shape (N, D)."""
        return F.layer_norm(hidden, *self.norm) if self.norm_before else hidden

    def __call__(self, inner: Tensor, hidden: Tensor) -> Tensor:
        """Return shape (N, D).

        Args:
            inner: what the part computed. Shape (N, inner width).
            hidden: what it read. Shape (N, D).
        """
        added = self.dense(inner, hidden)
        return added if self.norm_before else F.layer_norm(added, *self.norm)
