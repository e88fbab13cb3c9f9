"""Detect the kernels that the installed torch has for this machine, by running each once.

Versions and CPU names are not enough: a kernel may be missing from a build, not support a dtype, or
have other arguments under the same name.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.kernel_check import kernel_error

PLAIN = "plain"
PACKED = "packed"
UNPADDED = "unpadded"
INT8 = "int8"

FUSED: dict[str | None, tuple[str, str | None]] = {
    None: ("none", None),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", None),
    "silu": ("swish", None),
    "swish": ("swish", None),
    "tanh": ("tanh", None),
}
"""The packed kernel's name and algorithm for each activation."""

IN_PLACE: dict[str | None, Callable[[Tensor], Tensor]] = {
    "gelu": torch.ops.aten.gelu_,
    "gelu_new": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "gelu_pytorch_tanh": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "silu": torch.ops.aten.silu_,
    "swish": torch.ops.aten.silu_,
    "tanh": torch.tanh_,
}
"""Activations that torch computes faster than the packed kernel's AVX2 code, in place."""


def activate_apart(dtype: torch.dtype) -> bool:
    """Return whether activations in ``IN_PLACE`` are computed after the product, not fused.

    Only in float32: in half precision, the product would be rounded before the activation.
    oneDNN's AVX2 code takes two to three times as long for them as torch's. Its AVX-512 code does
    not. The decision is not based on timing: results must not depend on the load of the machine.
    """
    return dtype is torch.float32 and torch.backends.cpu.get_cpu_capability() == "AVX2"


def pack(weight: Tensor) -> Tensor:
    """Return a copy of a weight in the opaque layout of the packed kernel. Shape (O, I)."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
    return packed


def multiply(
    hidden: Tensor, packed: Tensor, bias: Tensor | None, activation: tuple[str, str | None]
) -> Tensor:
    """Return ``activation(hidden @ weight.T + bias)``. Shape (N, O) for shape (N, I)."""
    name, algorithm = activation
    product: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, packed, bias, name, [], algorithm)
    return product


def multiply_and_add(
    hidden: Tensor, residual: Tensor, packed: Tensor, bias: Tensor | None
) -> Tensor:
    """Return ``hidden @ weight.T + bias + residual``. Shape (N, O) for shape (N, I)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
        hidden, residual, packed, bias, "add"
    )
    return product


def encoder_kernel(dtype: torch.dtype, device: torch.device) -> tuple[str, str]:
    """Return the kernel for encoders, and the reason.

    Args:
        dtype: dtype of the weights.
        device: device of the weights.
    """
    if device.type != "cpu":
        return PLAIN, "packed weights are for CPUs"
    if (wrong := _wrong_with_packed(dtype)) is not None:
        return PLAIN, wrong
    return PACKED, "weights are packed in the kernel's own layout"


@cache
def _wrong_with_packed(dtype: torch.dtype) -> str | None:
    """Return why products of packed weights do not work in a dtype, or None if they do."""
    return kernel_error(lambda: _products_agree(dtype))


def _products_agree(dtype: torch.dtype) -> bool:
    """Return whether every used variant of the packed kernel agrees with plain torch."""
    with torch.inference_mode():
        generator = torch.Generator().manual_seed(0)
        hidden, weight, bias, residual = (
            torch.randn(*shape, generator=generator).to(dtype)
            for shape in ((5, 40), (24, 40), (24,), (5, 24))
        )
        packed = pack(weight)
        plain = F.linear(hidden.float(), weight.float(), bias.float())
        pairs: list[Sequence[Tensor]] = [
            (multiply_and_add(hidden, residual, packed, bias), plain + residual.float()),
            (multiply(hidden, packed, None, FUSED[None]), plain - bias.float()),
        ]
        for name, activation in FUSED.items():
            expected = plain if name is None else ACTIVATIONS[name](plain)
            pairs.append((multiply(hidden, packed, bias, activation), expected))
        # A sum of 40 products of values around 1, rounded once.
        tolerance = 64 * torch.finfo(dtype).eps
        return all(
            product.dtype is dtype and bool((product.float() - expected).abs().max() < tolerance)
            for product, expected in pairs
        )
