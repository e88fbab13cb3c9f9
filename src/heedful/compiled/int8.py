"""Linear layers in whole numbers of 8 bits.

Weights have a step for each output. What comes in has either a step for each of its channels, fixed
beforehand, or one for each row, taken from the row itself: nothing that is computed for a token
depends on its neighbours.

A row with a step of its own is never out of range, but its step must be multiplied in after the
product, and only then can a bias and an activation follow. With fixed steps the kernel does it all.

Shapes: N rows (tokens of all sequences, without padding), I width of what comes in, O of what comes
out.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled import kernels
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.probing import why_not

_LARGEST = 127
_ZERO = 128
"""Which of 0 to 255 stands for zero: the kernel is fast for inputs without a sign alone."""
_TO_WHOLE = 1.5 * 2**23
"""Added to a small float32 this leaves a whole number in its last bits, rounded to even."""
TOGETHER = 256
"""Rows that are worked on together where several passes are: they stay in a core's cache."""
_SMALLEST = 1e-30
"""Stands for the largest of a row of zeros."""


@cache
def _zero() -> Tensor:
    """Return which number of a weight stands for zero, where it is zero itself.

    No tensor is made on import: torch reads its settings for memory when it makes the first.
    """
    return torch.zeros(1, dtype=torch.int64)


def products(device: torch.device) -> tuple[bool, str]:
    """Tell whether a device multiplies whole numbers of 8 bits well, and how it was decided."""
    if device.type != "cpu":
        return False, "int8 is for CPUs"
    if (wrong := _wrong()) is not None:
        return False, wrong
    return True, "the CPU has instructions for sums of products of int8"


@cache
def _wrong() -> str | None:
    """Return why products cannot be had, if they cannot.

    Without such instructions neighbouring products are added in 16 bits, where the sum of two large
    ones does not fit; so it is tried. Kernels that are right but slow are told by the instructions.
    """
    wrong = why_not(_large_sums_agree)
    if wrong is not None:
        return f"sums of products of int8 are wrong on this CPU ({wrong})"
    if not _has_instructions():
        return "the CPU has no instructions for sums of products of int8, and would emulate them"
    return why_not(_layers_agree)


def _large_sums_agree() -> bool:
    """Add up the largest products there are, each after one that is not large."""
    weight = torch.full((32, 64), float(_LARGEST))
    weight[::2] *= -1
    whole = torch.full((4, 64), 255, dtype=torch.uint8)
    whole[:, ::3] = 1
    with torch.inference_mode():
        packed, steps, _ = _pack(weight)
        sums = _multiply(whole, packed, steps, None, kernels.FUSED[None], torch.float32)
        expected = whole.double() @ weight.double().T
        return bool(((sums - expected).abs() < 1).all())


def _has_instructions() -> bool:
    try:
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_vnni") or capabilities.get("avx_vnni"))
    except AttributeError:
        return bool(torch.cpu._is_vnni_supported())


def _layers_agree() -> bool:
    """Compare each thing that is asked of the kernel with the same in plain torch."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias, residual = (
        torch.randn(*shape, generator=generator) for shape in ((5, 40), (24, 40), (24,), (5, 24))
    )
    plain = F.linear(hidden, weight, bias)
    with torch.inference_mode():
        differences = [
            RowLinear(weight, bias)(hidden, residual) - plain - residual,
            RowLinear(weight, None)(hidden) - plain + bias,
        ]
        steps = hidden.abs().amax(0) / _LARGEST
        for activation in kernels.FUSED:
            expected = plain if activation is None else ACTIVATIONS[activation](plain)
            differences += [
                StepLinear(weight, bias, steps, activation, dtype)(hidden).float() - expected
                for dtype in (torch.float32, torch.bfloat16)
            ]
    # Sums of 40 products of numbers around 1, each with an error of up to 1 percent of the largest.
    return all(bool(difference.abs().max() < 0.5) for difference in differences)


def _pack(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Round a weight to whole steps.

    Returns:
        The whole numbers as the kernel reads them; the step of each output; and what a row of zeros
        gives, as each is ``_ZERO`` to the kernel. The last two have shape (O,).
    """
    steps = weight.abs().amax(1).clamp_min_(_SMALLEST).div_(_LARGEST)
    whole = (weight / steps[:, None]).round_().to(torch.int8)
    zeros = (steps.double() * whole.sum(1) * _ZERO).float()
    return torch.ops.onednn.qlinear_prepack(whole, None), steps, zeros


def _multiply(
    whole: Tensor,
    packed: Tensor,
    steps: Tensor,
    bias: Tensor | None,
    activation: tuple[str, str | None],
    dtype: torch.dtype,
) -> Tensor:
    """Return ``activation(steps * (whole @ weight.T) + bias)``. Shape (N, O)."""
    name, algorithm = activation
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        whole, 1.0, 0, packed, steps, _zero(), bias, 1.0, 0, dtype, name, [], algorithm or "none"
    )
    return product


class StepLinear:
    """A linear layer of inputs in fixed steps; what is out of range is taken to its end.

    Args:
        weight: shape (O, I), float32.
        bias: shape (O,), or None.
        steps: how far apart neighbouring whole numbers of each channel are. Shape (I,).
        activation: a name in ``feedforward.ACTIVATIONS``, or None.
        dtype: of what comes out.
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
        if len(hidden) <= TOGETHER:
            whole = self._whole(hidden)
        else:
            whole = torch.cat([self._whole(part) for part in torch.split(hidden, TOGETHER)])
        product = _multiply(whole, self.packed, self.steps, self.bias, self.activation, self.dtype)
        return product if residual is None else product.add_(residual)

    def _whole(self, hidden: Tensor) -> Tensor:
        """Round an input to whole steps. Shape (N, I), as the kernel reads them."""
        steps = (hidden * self.per_step).clamp_(-_LARGEST, _LARGEST)
        return steps.add_(_TO_WHOLE + _ZERO).view(torch.int32).to(torch.uint8)


class RowLinear:
    """A linear layer whose input gets a step for each of its rows.

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
        self.to_whole = torch.full((weight.shape[1],), _TO_WHOLE + _ZERO)
        # Tensors, because making them of Python's numbers costs each call more than their use.
        self.most, self.step = torch.tensor(float(_LARGEST)), torch.tensor(1 / _LARGEST)

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return shape (N, O) for shape (N, I); see ``Linear``."""
        hidden = hidden.float()
        largest = hidden.amax(1, keepdim=True)
        largest = torch.maximum(largest, hidden.amin(1, keepdim=True).neg_()).clamp_min_(_SMALLEST)
        # One pass rounds: multiplied, and moved to where the last bits are the whole number.
        whole = torch.addcmul(self.to_whole, hidden, self.most / largest)
        whole = whole.view(torch.int32).to(torch.uint8)
        product = _multiply(
            whole, self.packed, self.steps, self.zeros, kernels.FUSED[None], self.dtype
        )
        steps = largest.mul_(self.step)
        if residual is None:
            torch.addcmul(self.bias, product, steps, out=product)
            return product if self.activation is None else self.activation(product)
        return torch.addcmul(residual, product, steps, out=product).add_(self.bias)
