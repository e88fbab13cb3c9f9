"""A linear layer applied at each step of a loop, with one weight gradient for all steps.

Autograd would compute a weight gradient at each step: a product of only B rows, and a pass over a
tensor as large as the weight to accumulate it. On a CPU that takes longer than the products of the
loop itself. Here the loop's backward pass skips the weight. It passes the gradients of the steps'
outputs to the offsets. Once all have arrived, one product computes the weight gradient.

Shapes: S steps, B rows, I input width, O output width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from heedful.derivatives import once_differentiable


class StepwiseLinear:
    """A linear layer to call once per step, in order.

    Args:
        weight: shape (O, I).
        offsets: added at each step, such as the layer's bias. Shape (S, B, O).
    """

    def __init__(self, weight: Tensor, offsets: Tensor) -> None:
        self._inputs: list[Tensor] = []
        self._weight = weight.detach().T
        self._offsets = iter(_collect(offsets, weight, self._inputs).unbind())

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the output of the next step, shape (B, O), for shape (B, I)."""
        self._inputs.append(rows.detach())
        return torch.addmm(next(self._offsets), rows, self._weight)


def stepwise(linear: nn.Linear, steps: int, rows: int) -> StepwiseLinear:
    """Return a layer with a bias as `StepwiseLinear`.

    Args:
        linear: the layer.
        steps: S.
        rows: B.
    """
    return StepwiseLinear(linear.weight, linear.bias.expand(steps, rows, -1))


def _collect(offsets: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
    collected: Tensor = _Collect.apply(offsets, weight, inputs)  # type: ignore[no-untyped-call]
    return collected


class _Collect(torch.autograd.Function):
    """The identity on the offsets. Backward computes the weight gradient from their gradients."""

    @staticmethod
    def forward(ctx: Any, offsets: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs  # filled by the steps that follow
        return offsets.view_as(offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs = torch.stack(ctx.inputs)  # (S, B, I)
        return grad, grad.flatten(0, 1).T @ inputs.flatten(0, 1), None
