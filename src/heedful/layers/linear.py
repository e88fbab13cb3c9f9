"""Linear layers, in float32 by the faster of the two products that torch has for a CPU.

Torch has MKL compute products in float32, which uses the widest vectors of Intel's CPUs alone. On
others that have them oneDNN takes down to half the time, forward and backward.

Shapes: N rows (all dimensions but the last), I width of what comes in, O of what comes out.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_MANY = 2**24
"""Multiplications from which on oneDNN is asked: the first product of each size makes a kernel,
which takes as long as such a product saves in three times."""

_PLAIN = (Tensor, nn.Parameter)
"""Not what an export or a shard of a weight is made of."""


class Linear(nn.Linear):
    """``nn.Linear`` by the faster product; see `linear`."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (..., O) for shape (..., I)."""
        return linear(hidden, self.weight, self.bias)


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``hidden @ weight.T + bias``. Shape (..., O).

    Args:
        hidden: shape (..., I).
        weight: shape (O, I).
        bias: shape (O,), or None.
    """
    if not _pays(hidden, weight):
        return F.linear(hidden, weight, bias)
    if torch.is_grad_enabled():
        product: Tensor = _Product.apply(hidden, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _multiply(hidden, weight, bias)


class _Product(torch.autograd.Function):
    """All three products of a linear layer by oneDNN."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return _multiply(hidden, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        of_hidden, of_weight, of_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)  # (N, O)
        return (
            _multiply(grad, weight.T) if of_hidden else None,
            _multiply(rows.T, hidden.flatten(0, -2).T) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def _multiply(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, weight, bias, "none", [], None)
    return product


def _pays(hidden: Tensor, weight: Tensor) -> bool:
    """Tell whether oneDNN multiplies them, and takes less time with it."""
    return (
        type(hidden) in _PLAIN
        and type(weight) in _PLAIN
        and hidden.dtype is weight.dtype is torch.float32
        and hidden.device.type == weight.device.type == "cpu"
        and hidden.shape[:-1].numel() * weight.numel() >= _MANY
        and not torch.is_autocast_enabled("cpu")  # which narrows what torch's own is given
        and products()[0]
    )


@cache
def products() -> tuple[bool, str]:
    """Tell whether oneDNN computes large products in float32, and how it was decided.

    It is not measured: what is computed may not depend on what else the machine does.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False, "the CPU has no AVX-512"
    if _is_by_intel():
        return False, "MKL uses AVX-512 on Intel's CPUs, and on systems that do not name the CPU"
    if not torch.backends.mkl.is_available() or not _is_there():  # type: ignore[no-untyped-call]
        return False, "torch was built without MKL or oneDNN"
    return True, "the CPU has AVX-512, which MKL uses on Intel's CPUs alone"


def _is_by_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return True


def _is_there() -> bool:
    """Tell whether torch has oneDNN's product, and it is the one that is meant."""
    hidden, weight = torch.ones(2, 3), torch.arange(12.0).view(4, 3)
    try:
        with torch.no_grad():
            product = _multiply(hidden, weight, torch.ones(4))
    except (AttributeError, RuntimeError, NotImplementedError, TypeError):
        return False
    return torch.equal(product, F.linear(hidden, weight, torch.ones(4)))
