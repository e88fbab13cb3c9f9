"""Linear layers, in float32 by the faster of the two products that torch has for a CPU.

Torch has MKL compute products in float32, which uses the widest vectors of Intel's CPUs alone. On
others that have them oneDNN takes as little as half the time, forward and backward.

Shapes: N rows (all dimensions but the last), I width of what comes in, O of what comes out.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from heedful.layers.probing import why_not

_MANY = 2**24
"""Multiplications from which on oneDNN is asked: the first product of each size makes a kernel,
which costs what three such products save."""

_PLAIN = (Tensor, nn.Parameter)
"""Not what ``torch.export`` computes with, nor a shard of a weight."""


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
    if not (is_plainly_called("cpu") and products()[0] and _fits(hidden, weight, bias)):
        return F.linear(hidden, weight, bias)
    if torch.is_grad_enabled():
        product: Tensor = _Product.apply(hidden, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _multiply(hidden, weight, bias)


class _Product(torch.autograd.Function):
    """All three products of a linear layer; a derivative of its gradients is one of such layers."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_hidden, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(hidden if of_weight else None, weight if of_hidden else None)
        return _multiply(hidden, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])  # (N, O)
        return (
            None if weight is None else linear(grad, weight.T),
            None if hidden is None else linear(rows.T, hidden.reshape(-1, hidden.shape[-1]).T),
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _multiply(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, weight, bias, "none", [], None)
    return product


def _fits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Tell whether oneDNN multiplies them, and takes less time with it.

    What does not fit together is left to torch, which says so.
    """
    return (
        type(hidden) in _PLAIN
        and type(weight) in _PLAIN
        and hidden.dtype is weight.dtype is torch.float32
        and hidden.device.type == weight.device.type == "cpu"
        and hidden.dim() > 1
        and hidden.shape[:-1].numel() * weight.numel() >= _MANY
        and hidden.shape[-1:] == weight.shape[1:]
        and (bias is None or _is_row(bias, weight))
    )


def _is_row(bias: Tensor, weight: Tensor) -> bool:
    """Tell whether a bias is one, without gaps, as the product reads it."""
    as_weight = type(bias) in _PLAIN and bias.dtype is weight.dtype and bias.device == weight.device
    return as_weight and bias.shape == weight.shape[:1] and bias.is_contiguous()


def is_plainly_called(device: str) -> bool:
    """Tell whether what is asked for on a kind of device is a product, and nothing else.

    Autocast narrows what torch's own product is given, and tracing, compiling, `torch.func` and
    forward derivatives know that one alone.
    """
    return not (
        torch.is_autocast_enabled(device)
        or torch._C._get_tracing_state() is not None
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
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
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False, "torch was built without MKL"
    if (wrong := why_not(_computes_right)) is not None:
        return False, wrong
    return True, "the CPU has AVX-512, which MKL uses on Intel's CPUs alone"


def _is_by_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return True


def _computes_right() -> bool:
    hidden, weight = torch.ones(2, 3), torch.arange(12.0).view(4, 3)
    with torch.no_grad():
        product = _multiply(hidden, weight, torch.ones(4))
    return torch.equal(product, F.linear(hidden, weight, torch.ones(4)))
