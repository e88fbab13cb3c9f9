"""A linear layer that a loop repeats, whose weight gets its gradient from all steps at once.

Autograd gives the weight a gradient at each step: a product of no more rows than there are
sequences, and a pass over a tensor as large as the weight to add it to that of the steps before. On
a CPU that takes longer than the products of the loop itself. Here the backward pass of the loop
leaves the weight alone; what it sends to the offsets of the steps are the gradients of the steps'
results, and when the last of them is there, one product gives the weight's gradient.

Shapes: S steps, B rows, I width of what comes in, O width of what comes out.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Repeated:
    """The steps of a linear layer, to be called once for each of them, in order.

    Args:
        weight: shape (O, I).
        offsets: what is added at each step, such as the layer's bias. Shape (S, B, O).
    """

    def __init__(self, weight: Tensor, offsets: Tensor) -> None:
        self._inputs: list[Tensor] = []
        self._weight = weight.detach().T
        self._offsets = iter(_collect(offsets, weight, self._inputs).unbind())

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the next step's result, shape (B, O), for shape (B, I)."""
        self._inputs.append(rows.detach())
        return torch.addmm(next(self._offsets), rows, self._weight)


def repeated(linear: nn.Linear, steps: int, rows: int) -> Repeated:
    """Return the steps of a layer with a bias.

    Args:
        linear: the layer.
        steps: S.
        rows: B.
    """
    return Repeated(linear.weight, linear.bias.expand(steps, rows, -1))


def _collect(offsets: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
    collected: Tensor = _Collect.apply(offsets, weight, inputs)  # type: ignore[no-untyped-call]
    return collected


class _Collect(torch.autograd.Function):
    """Passes the offsets on, and makes the weight's gradient of theirs."""

    @staticmethod
    def forward(ctx: Any, offsets: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs  # filled by the steps that follow
        return offsets.view_as(offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs = torch.stack(ctx.inputs)  # (S, B, I)
        return grad, grad.flatten(0, 1).T @ inputs.flatten(0, 1), None
