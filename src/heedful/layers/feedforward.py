"""The position-wise feed-forward sublayer of a block, up to its second linear layer.

Shapes: B batch, S length, D model width, F inner width.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.derivatives import once_differentiable
from heedful.layers import fused
from heedful.layers.dropout import Dropout, active_probability
from heedful.layers.linear import Linear, is_plain, linear


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


_RECOMPUTE_FROM = 2**21
"""Number of activations at which the backward pass recomputes them. They are the widest tensors of
a block, and recomputing them takes a hundredth of its time."""


class Intermediate(nn.Module):
    """The first linear layer, the activation function and its dropout.

    Args:
        width: D.
        inner_width: F.
        activation: a name in ``ACTIVATIONS``.
        dropout: dropout probability of the activations in training.
    """

    def __init__(self, width: int, inner_width: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.dense = Linear(width, inner_width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; ``intermediate_act_fn`` is the reference's name of the activation."""
        super().__setattr__("activation" if name == "intermediate_act_fn" else name, value)

    @property
    def intermediate_act_fn(self) -> Callable[[Tensor], Tensor]:
        """The activation function, by its name in the reference."""
        return self.activation

    def project(self, hidden: Tensor, dense: nn.Linear, *, recomputed: bool = False) -> Tensor:
        """Return ``dense`` of the activations, for ``hidden`` of shape (B, S, D).

        Large activations are recomputed in the backward pass, unless the whole block is
        ``checkpointed``; see ``Block``.
        """
        has_dropout = active_probability(self.dropout) > 0
        projected: Tensor
        # Check the size last: an export does not train, and must keep sizes dynamic.
        if (
            torch.is_grad_enabled()
            and not (recomputed or has_dropout)
            and is_plain(dense)
            and dense.weight.requires_grad
            and hidden.shape[:-1].numel() * dense.in_features >= _RECOMPUTE_FROM
        ):
            arguments = (dense.weight, dense.bias, self.activation)
            projected = _ActivatedLinear.apply(self.dense(hidden), *arguments)  # type: ignore[no-untyped-call]
        else:
            projected = dense(self(hidden))
        return projected

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, S, F) for shape (B, S, D)."""
        if fused.supports_gelu(self.dense, self.activation, hidden):
            activated = fused.gelu(hidden, self.dense)
        else:
            activated = self.activation(self.dense(hidden))
        inner: Tensor = self.dropout(activated)
        return inner


class _ActivatedLinear(torch.autograd.Function):
    """A linear layer after an activation function. Saves only the input of the function."""

    @staticmethod
    def forward(
        ctx: Any,
        pre_activation: Tensor,
        weight: Tensor,
        bias: Tensor,
        activation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.activation = activation
        ctx.save_for_backward(pre_activation, weight)
        return linear(activation(pre_activation), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        pre_activation, weight = ctx.saved_tensors
        flat_grad = grad.flatten(0, -2)  # (B * S, D)
        with torch.enable_grad():
            pre_activation = pre_activation.detach().requires_grad_()
            inner = ctx.activation(pre_activation)
        # ``torch.autocast`` is for the forward pass only: here, weights may have a wider dtype.
        grad_weight = linear(flat_grad.T, inner.detach().to(grad.dtype).flatten(0, -2).T)
        grad_inner = linear(grad, weight.to(grad.dtype).T).to(inner.dtype)
        (grad_pre_activation,) = torch.autograd.grad(inner, pre_activation, grad_inner)
        return grad_pre_activation, grad_weight, flat_grad.sum(0), None
