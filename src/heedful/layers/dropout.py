"""Dropout (Srivastava et al. 2014), made fast on a CPU.

There torch draws one number a value and multiplies by a bool mask, which takes longer than the
matrix products around it in bfloat16. Here a small counter-free generator, seeded from torch's own,
fills integers as wide as the values; a comparison makes all-ones or all-zeros of each; and one
bitwise "and" drops. A probability is thereby rounded to a multiple of 2**-16 for half precision and
2**-32 for float32, and the scale fits the rounded one, so the expectation is exact.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Dropout(nn.Module):
    """Dropout in training, nothing outside it.

    Args:
        probability: of a value being set to zero, at least 0 and below 1.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values: Tensor, *, keep_bits: bool = True) -> Tensor:
        """Return ``values``, in training some of them zeros and the rest scaled up.

        Args:
            values: any shape.
            keep_bits: whether to keep what was drawn for the backward pass. Else, on a CPU, that
                draws the same again.
        """
        if not self.training or self.probability == 0:
            return values
        if values.device.type != "cpu":
            return F.dropout(values, self.probability)
        dropped: Tensor = _Drop.apply(values, self.probability, keep_bits)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """Return what ``print`` shows of the module."""
        return f"probability={self.probability}"


class _Drop(torch.autograd.Function):
    """Keeps the drawn bits alone for the backward pass, or no more than the seed of the draw."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, probability: float, keep_bits: bool) -> Tensor:
        ctx.probability, ctx.seed = probability, _draw_seed()
        keep, ctx.scale = draw_keep(values, probability, ctx.seed)
        ctx.save_for_backward(keep if keep_bits else None)
        return apply_keep(values, keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        if keep is None:
            keep, _ = draw_keep(grad, ctx.probability, ctx.seed)
        return apply_keep(grad, keep).mul_(ctx.scale), None, None


def draw_keep(like: Tensor, probability: float, seed: int | None = None) -> tuple[Tensor, float]:
    """Draw which values to keep.

    Args:
        like: gives the shape, the type and the device.
        probability: of a value being dropped, at least 0 and below 1.
        seed: of the draw, on a CPU; None takes one from torch's generator.

    Returns:
        Integers as wide as the values, all ones to keep and all zeros to drop, and what to
        multiply the kept values by.
    """
    bits = 8 * like.element_size()
    dropped = min(round(probability * 2**bits), 2**bits - 1)  # of the 2**bits integers
    lanes = _random_integers(like, seed)
    if dropped == 0:
        return lanes.fill_(-1), 1.0
    first_kept = dropped - 2 ** (bits - 1)  # the integers have a sign
    keep = lanes.clamp_(first_kept - 1, first_kept).sub_(first_kept).bitwise_not_()
    return keep, 2**bits / (2**bits - dropped)


def apply_keep(values: Tensor, keep: Tensor) -> Tensor:
    """Return the values with the bits of the dropped ones set to zero, not scaled."""
    return (values.view(keep.dtype) & keep).view(values.dtype)


def _draw_seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_())


def _random_integers(like: Tensor, seed: int | None) -> Tensor:
    """Draw uniform integers as wide as the values of ``like``, over their whole range.

    On a CPU, torch's generator gives the seed, so that its state decides the draw and restoring it
    repeats the draw; it would take twice as long to give the integers.
    """
    size = like.element_size()
    count = like.numel() * size // 8 + 1  # of integers of 8 bytes
    if like.device.type == "cpu":
        bits = np.random.SFC64(_draw_seed() if seed is None else seed).random_raw(count)
        drawn = torch.from_numpy(bits.view(np.int64))
    else:
        lowest = torch.iinfo(torch.int64).min
        drawn = torch.empty(count, dtype=torch.int64, device=like.device).random_(lowest, None)
    return drawn.view(_INTEGERS[size])[: like.numel()].view(like.shape)
