"""The position-wise feed-forward half of a block, up to its second product.

Shapes: B batch, S length, D model width, F inner width.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.layers import rows
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, linear


def _gelu_tanh(hidden: Tensor) -> Tensor:
    return F.gelu(hidden, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}
"""The reference's names. ``gelu_new`` and ``gelu_pytorch_tanh`` are one function, and so are
``silu`` and ``swish``."""


_MANY = 2**21
"""Activations from which on they are not kept for the backward pass: they are the widest tensors of
a block, and take a hundredth of its time to compute again."""


class Intermediate(nn.Module):
    """The widening product, the activation and its dropout.

    Args:
        width: D.
        inner_width: F.
        activation: a name in ``ACTIVATIONS``.
        dropout: probability with which an activation is dropped in training.
    """

    def __init__(self, width: int, inner_width: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.dense = Linear(width, inner_width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def project(self, hidden: Tensor, dense: nn.Linear, *, recomputed: bool = False) -> Tensor:
        """Return what a linear layer makes of the inner states, for shape (B, S, D).

        Many inner states are computed again in the backward pass, unless they are ``recomputed``
        there anyway; see ``Block``.
        """
        drops = self.training and self.dropout.probability > 0
        learns = torch.is_grad_enabled() and dense.weight.requires_grad and not recomputed
        projected: Tensor
        # Sizes are looked at last: an export, which does not learn, keeps them open.
        if learns and not drops and hidden.shape[:-1].numel() * self.dense.out_features >= _MANY:
            rest = (dense.weight, dense.bias, self.activation)
            projected = _Activated.apply(self.dense(hidden), *rest)  # type: ignore[no-untyped-call]
        else:
            projected = dense(self(hidden))
        return projected

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, S, F) for shape (B, S, D)."""
        if rows.fits_gelu(self.dense, self.activation, hidden):
            activated = rows.gelu(hidden, self.dense)
        else:
            activated = self.activation(self.dense(hidden))
        inner: Tensor = self.dropout(activated)
        return inner


class _Activated(torch.autograd.Function):
    """A linear layer of activations that keeps only what they are computed from."""

    @staticmethod
    def forward(
        ctx: Any,
        widened: Tensor,
        weight: Tensor,
        bias: Tensor,
        activation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.activation = activation
        ctx.save_for_backward(widened, weight)
        return linear(activation(widened), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        widened, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)  # (B * S, D)
        with torch.enable_grad():
            widened = widened.detach().requires_grad_()
            inner = ctx.activation(widened)
        grad_weight = linear(rows.T, inner.detach().flatten(0, -2).T)
        (grad_widened,) = torch.autograd.grad(inner, widened, linear(grad, weight.T))
        return grad_widened, grad_weight, rows.sum(0), None
