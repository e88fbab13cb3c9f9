"""Derivatives of functions whose backward pass is not differentiable itself."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

_MESSAGE = (
    b"this operation has no second derivatives in heedful; those of attention need the model to be "
    b"called inside torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)"
)


def once_differentiable(backward: Callable[..., T]) -> Callable[..., T]:
    """Let the backward pass of an ``autograd.Function`` be differentiated never, with an error.

    torch's decorator of this name raises its error only if an incoming gradient has a gradient
    itself. That of a loss has none, so its second derivatives would silently be zero.
    """

    @wraps(backward)
    def computed(ctx: Any, *gradients: Any) -> Any:
        with torch.no_grad():
            outputs = backward(ctx, *gradients)
        if not torch.is_grad_enabled():  # unless create_graph=True
            return outputs
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = only_once(*several)
        return failing if isinstance(outputs, tuple) else failing[0]

    return computed


def only_once(*gradients: Tensor | None) -> tuple[Any, ...]:
    """Return gradients whose own derivatives are an error; None stays None."""
    fail: Any = torch._C._functions.DelayedError(_MESSAGE, len(gradients))
    values = [None if one is None else one.detach().requires_grad_() for one in gradients]
    failing = fail(*values)
    return failing if isinstance(failing, tuple) else (failing,)
