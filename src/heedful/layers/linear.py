"""Linear layers that use the faster of torch's two float32 matrix products on a CPU.

Torch computes float32 products with MKL, which uses AVX-512 only on Intel's CPUs. On other CPUs
with AVX-512, oneDNN takes as little as half the time, forward and backward.

Shapes: N rows (all dimensions but the last), I input width, O output width.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from heedful.layers.kernel_check import kernel_error

_MIN_MULTIPLICATIONS = 2**24
"""Number of multiplications at which oneDNN takes over. The first product of each size creates a
kernel, which costs as much as three products of this size save."""

_PLAIN_TENSORS = (Tensor, nn.Parameter)
"""Plain tensor types: no fake tensors of ``torch.export``, no shards of weights."""


class Linear(nn.Linear):
    """``nn.Linear`` with the faster matrix product; see `linear`."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (..., O) for shape (..., I)."""
        return linear(hidden, self.weight, self.bias)


def is_plain(layer: nn.Module) -> bool:
    """Return whether other code may compute a linear layer or a layer normalisation for it.

    It may not for a subclass, such as an adapter, nor if hooks read or change what the layer does.
    """
    return runs_own_forward(layer, *_PLAIN_LAYERS)


def runs_own_forward(layer: nn.Module, *classes: type[nn.Module]) -> bool:
    """Return whether a layer is of one of some classes, without hooks or a forward of a user's."""
    return not (
        type(layer) not in classes
        or "forward" in vars(layer)
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
    )


def in_dtype_of(layer: nn.Module, hidden: Tensor) -> Tensor:
    """Return the input of a layer in the dtype of the layer's parameters, if it has any."""
    first = next(layer.parameters(), None)
    return hidden if first is None else hidden.to(first.dtype)


_PLAIN_LAYERS = (Linear, nn.Linear, nn.LayerNorm)


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``hidden @ weight.T + bias``. Shape (..., O).

    Args:
        hidden: shape (..., I).
        weight: shape (O, I).
        bias: shape (O,), or None.
    """
    if not (is_eager("cpu") and uses_onednn()[0] and _supported(hidden, weight, bias)):
        return F.linear(hidden, weight, bias)
    if torch.is_grad_enabled():
        product: Tensor = _Product.apply(hidden, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _multiply(hidden, weight, bias)


class _Product(torch.autograd.Function):
    """The three products of a linear layer. Backward uses `linear`, so it is differentiable."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        hidden_needs_grad, weight_needs_grad, _ = ctx.needs_input_grad
        ctx.save_for_backward(
            hidden if weight_needs_grad else None, weight if hidden_needs_grad else None
        )
        return _multiply(hidden, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        flat_grad = grad.reshape(-1, grad.shape[-1])  # (N, O)
        return (
            None if weight is None else linear(grad, weight.T),
            None if hidden is None else linear(flat_grad.T, hidden.reshape(-1, hidden.shape[-1]).T),
            flat_grad.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _multiply(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, weight, bias, "none", [], None)
    return product


def _supported(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Return whether oneDNN supports these tensors and is faster.

    Mismatched shapes are left to torch, which raises the error.
    """
    return (
        type(hidden) in _PLAIN_TENSORS
        and type(weight) in _PLAIN_TENSORS
        and hidden.dtype is weight.dtype is torch.float32
        and hidden.device.type == weight.device.type == "cpu"
        and hidden.dim() > 1
        and hidden.shape[:-1].numel() * weight.numel() >= _MIN_MULTIPLICATIONS
        and hidden.shape[-1:] == weight.shape[1:]
        and (bias is None or _is_contiguous_bias(bias, weight))
    )


def _is_contiguous_bias(bias: Tensor, weight: Tensor) -> bool:
    """Return whether a bias has the layout that the product reads: one contiguous row."""
    matches = (
        type(bias) in _PLAIN_TENSORS and bias.dtype is weight.dtype and bias.device == weight.device
    )
    return matches and bias.shape == weight.shape[:1] and bias.is_contiguous()


def is_eager(device: str) -> bool:
    """Return whether a call on this device type needs only the values of the product.

    Autocast casts the inputs of torch's own product. Tracing, compiling, `torch.func` and
    forward-mode derivatives support only torch's own product.
    """
    return not (
        torch.is_autocast_enabled(device)
        or torch._C._get_tracing_state() is not None
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


@cache
def uses_onednn() -> tuple[bool, str]:
    """Return whether oneDNN computes large float32 products, and the reason.

    The decision is not based on timing: results must not depend on the load of the machine.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False, "the CPU has no AVX-512"
    if _is_by_intel():
        return (
            False,
            "MKL uses AVX-512 on Intel CPUs, and perhaps on systems that do not name the CPU",
        )
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False, "torch was built without MKL"
    if (wrong := kernel_error(_computes_right)) is not None:
        return False, wrong
    return True, "the CPU has AVX-512, which MKL uses only on Intel CPUs"


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
