"""Quantised linear layers in int8.

A step is the quantisation scale: the distance between neighbouring integers. Weights have one step
per output. Inputs have either one static step per channel, or one dynamic step per row, computed
from the row itself. So no result for a token depends on its neighbours.

A row with a dynamic step is never out of range. But its step must be multiplied in after the
product, before bias and activation. With static steps the kernel does all of it.

Shapes: N rows (tokens of all sequences, without padding), I input width, O output width.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled import kernels
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.kernel_check import kernel_error

_MAX_INT8 = 127
_ZERO_POINT = 128
"""Zero point of uint8 inputs: the kernel is only fast for unsigned inputs."""
_ROUNDING_OFFSET = 1.5 * 2**23
"""Added to a small float32, it leaves an integer in the last bits, rounded half to even."""
CHUNK_ROWS = 256
"""Rows per chunk where several passes are needed; a chunk stays in a core's cache."""
_MIN_RANGE = 1e-30
"""Replaces the absolute maximum of a row of zeros."""


@cache
def _weight_zero_point() -> Tensor:
    """Return the zero point of the weights, which is 0.

    It is not created on import: torch reads its memory settings when it creates the first tensor.
    """
    return torch.zeros(1, dtype=torch.int64)


def is_supported(device: torch.device) -> tuple[bool, str]:
    """Return whether a device multiplies int8 correctly and fast, and the reason."""
    if device.type != "cpu":
        return False, "int8 is for CPUs"
    if (reason := _why_unsupported()) is not None:
        return False, reason
    return True, "the CPU has instructions for sums of products of int8"


@cache
def _why_unsupported() -> str | None:
    """Return why int8 products cannot be used, or None if they can.

    Without VNNI instructions neighbouring products are added in 16 bits, where the sum of two large
    products overflows. A test computation detects this. The instruction set detects kernels that
    are correct but slow.
    """
    reason = kernel_error(_large_sums_agree)
    if reason is not None:
        return f"sums of products of int8 are wrong on this CPU ({reason})"
    if not _has_instructions():
        return "the CPU has no instructions for sums of products of int8, and would emulate them"
    return kernel_error(_layers_agree)


def _large_sums_agree() -> bool:
    """Return whether sums of the largest possible products, mixed with small ones, are exact."""
    weight = torch.full((32, 64), float(_MAX_INT8))
    weight[::2] *= -1
    quantised = torch.full((4, 64), 255, dtype=torch.uint8)
    quantised[:, ::3] = 1
    with torch.inference_mode():
        packed, steps, _ = _pack(weight)
        sums = _multiply(quantised, packed, steps, None, kernels.FUSED[None], torch.float32)
        expected = quantised.double() @ weight.double().T
        return bool(((sums - expected).abs() < 1).all())


def _has_instructions() -> bool:
    try:
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_vnni") or capabilities.get("avx_vnni"))
    except AttributeError:
        return bool(torch.cpu._is_vnni_supported())


def _layers_agree() -> bool:
    """Return whether every used variant of the kernel agrees with plain torch."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias, residual = (
        torch.randn(*shape, generator=generator) for shape in ((5, 40), (24, 40), (24,), (5, 24))
    )
    plain = F.linear(hidden, weight, bias)
    with torch.inference_mode():
        differences = [
            DynamicInt8Linear(weight, bias)(hidden, residual) - plain - residual,
            DynamicInt8Linear(weight, None)(hidden) - plain + bias,
        ]
        steps = hidden.abs().amax(0) / _MAX_INT8
        for activation in kernels.FUSED:
            expected = plain if activation is None else ACTIVATIONS[activation](plain)
            differences += [
                StaticInt8Linear(weight, bias, steps, activation, dtype)(hidden).float() - expected
                for dtype in (torch.float32, torch.bfloat16)
            ]
    # Sums of 40 products of values around 1, each with an error of up to 1 percent of the largest.
    return all(bool(difference.abs().max() < 0.5) for difference in differences)


def _pack(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise a weight.

    Returns:
        The int8 weight in the layout of the kernel; the step of each output; and the zero-point
        correction: the product for a row of zeros, which the kernel reads as ``_ZERO_POINT``. The
        step and the correction have shape (O,).
    """
    steps = weight.abs().amax(1).clamp_min_(_MIN_RANGE).div_(_MAX_INT8)
    quantised = (weight / steps[:, None]).round_().to(torch.int8)
    zeros = (steps.double() * quantised.sum(1) * _ZERO_POINT).float()
    return torch.ops.onednn.qlinear_prepack(quantised, None), steps, zeros


def _multiply(
    quantised: Tensor,
    packed: Tensor,
    steps: Tensor,
    bias: Tensor | None,
    activation: tuple[str, str | None],
    dtype: torch.dtype,
) -> Tensor:
    """Return ``activation(steps * (quantised @ weight.T) + bias)``. Shape (N, O)."""
    name, algorithm = activation
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        quantised,
        1.0,
        0,
        packed,
        steps,
        _weight_zero_point(),
        bias,
        1.0,
        0,
        dtype,
        name,
        [],
        algorithm or "none",
    )
    return product


class StaticInt8Linear:
    """A linear layer with static quantisation of its inputs; out-of-range values are clipped.

    Args:
        weight: shape (O, I), float32.
        bias: shape (O,), or None.
        steps: quantisation step of each input channel. Shape (I,).
        activation: a name in ``feedforward.ACTIVATIONS``, or None.
        dtype: dtype of the output.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        steps: Tensor,
        activation: str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.in_features = weight.shape[1]
        self.dtype = dtype
        self.per_step = 1 / steps
        self.packed, self.steps, zeros = _pack(weight * steps)
        self.bias = -zeros if bias is None else bias - zeros
        self.activation = kernels.FUSED[activation]

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return shape (N, O) for shape (N, I); see ``Linear``."""
        if len(hidden) <= CHUNK_ROWS:
            quantised = self._quantise(hidden)
        else:
            quantised = torch.cat(
                [self._quantise(chunk) for chunk in torch.split(hidden, CHUNK_ROWS)]
            )
        product = _multiply(
            quantised, self.packed, self.steps, self.bias, self.activation, self.dtype
        )
        return product if residual is None else product.add_(residual)

    def _quantise(self, hidden: Tensor) -> Tensor:
        """Quantise an input to uint8, as the kernel reads it. Shape (N, I)."""
        steps = (hidden * self.per_step).clamp_(-_MAX_INT8, _MAX_INT8)
        return steps.add_(_ROUNDING_OFFSET + _ZERO_POINT).view(torch.int32).to(torch.uint8)


class DynamicInt8Linear:
    """A linear layer with dynamic quantisation: one step per input row.

    Args:
        weight: shape (O, I), float32.
        bias: shape (O,), or None.
        activation: a name in ``feedforward.ACTIVATIONS``, or None.
    """

    dtype = torch.float32

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str | None = None) -> None:
        self.in_features = weight.shape[1]
        self.activation = None if activation is None else ACTIVATIONS[activation]
        self.packed, self.steps, zeros = _pack(weight)
        self.zeros = -zeros
        self.bias = torch.zeros_like(self.steps) if bias is None else bias.clone()
        self.to_whole = torch.full((weight.shape[1],), _ROUNDING_OFFSET + _ZERO_POINT)
        # Tensors: converting Python numbers in each call would cost more than the operations.
        self.most, self.step = torch.tensor(float(_MAX_INT8)), torch.tensor(1 / _MAX_INT8)

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return shape (N, O) for shape (N, I); see ``Linear``."""
        hidden = hidden.float()
        largest = hidden.amax(1, keepdim=True)
        largest = torch.maximum(largest, hidden.amin(1, keepdim=True).neg_()).clamp_min_(_MIN_RANGE)
        # One pass scales and rounds: afterwards the last bits hold the integer.
        quantised = torch.addcmul(self.to_whole, hidden, self.most / largest)
        quantised = quantised.view(torch.int32).to(torch.uint8)
        product = _multiply(
            quantised, self.packed, self.steps, self.zeros, kernels.FUSED[None], self.dtype
        )
        steps = largest.mul_(self.step)
        if residual is None:
            torch.addcmul(self.bias, product, steps, out=product)
            return product if self.activation is None else self.activation(product)
        return torch.addcmul(residual, product, steps, out=product).add_(self.bias)
