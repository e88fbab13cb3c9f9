"""Dropout (Srivastava et al. 2014) that is fast on a CPU.

On a CPU, torch draws one number per value and multiplies by a bool mask. In bfloat16 that takes
longer than the matrix products around it. This module instead fills integers as wide as the values
with a small counter-free generator, seeded from torch's own. A comparison turns each integer into
all ones or all zeros, and a bitwise "and" drops the values. The probability is rounded to a
multiple of 2**-16 in half precision and 2**-32 in float32. The scale uses the rounded probability,
so the expectation is exact.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Dropout(nn.Dropout):
    """Dropout in training, the identity otherwise.

    Args:
        p: probability of setting a value to zero, at least 0 and below 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p)

    def forward(self, values: Tensor, *, keep_bits: bool = True) -> Tensor:
        """Return ``values``; in training, some are set to zero and the others scaled up.

        Args:
            values: any shape.
            keep_bits: whether to save the mask for the backward pass. Otherwise, on a CPU, the
                backward pass draws the same mask again.
        """
        if not self.training or self.p == 0:
            return values
        if values.device.type != "cpu":
            return F.dropout(values, self.p)
        dropped: Tensor = _Drop.apply(values, self.p, keep_bits)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """Return the argument that ``print`` shows."""
        return f"p={self.p}"


def active_probability(dropout: nn.Module) -> float:
    """Return the probability with which a layer drops values now: 0 in evaluation mode.

    Layers other than torch's ``nn.Dropout`` are taken to drop nothing, such as ``nn.Identity``.
    """
    return dropout.p if dropout.training and isinstance(dropout, nn.Dropout) else 0.0


def drops_plainly(layer: nn.Module) -> bool:
    """Return whether `active_probability` says all about a layer in the place of a dropout."""
    return isinstance(layer, nn.Dropout | nn.Identity)


def drop(layer: nn.Module, values: Tensor, *, keep_bits: bool) -> Tensor:
    """Return the values of a dropout layer; only heedful's knows ``keep_bits``."""
    options = {"keep_bits": keep_bits} if isinstance(layer, Dropout) else {}
    dropped: Tensor = layer(values, **options)
    return dropped


class _Drop(torch.autograd.Function):
    """Dropout that saves only the mask, or only the seed of the mask, for the backward pass."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, probability: float, keep_bits: bool) -> Tensor:
        ctx.probability, ctx.seed = probability, _draw_seed()
        keep, ctx.scale = draw_keep(values, probability, ctx.seed)
        ctx.save_for_backward(keep if keep_bits else None)
        return apply_keep(values, keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        if keep is None:
            keep, _ = draw_keep(grad, ctx.probability, ctx.seed)
        if torch.is_grad_enabled():  # for second derivatives, which bits do not have
            return grad.masked_fill(keep == 0, 0.0) * ctx.scale, None, None
        return apply_keep(grad, keep).mul_(ctx.scale), None, None


def draw_keep(like: Tensor, probability: float, seed: int | None = None) -> tuple[Tensor, float]:
    """Draw a dropout mask.

    Args:
        like: tensor of the same shape, dtype and device as the values.
        probability: dropout probability, at least 0 and below 1.
        seed: seed on a CPU; None draws one from torch's generator.

    Returns:
        The mask, as integers as wide as the values: all bits one to keep a value, all zero to drop
        it. And the scale of the kept values.
    """
    bits = 8 * like.element_size()
    dropped = min(round(probability * 2**bits), 2**bits - 1)  # of the 2**bits integers
    lanes = _random_integers(like, seed)
    if dropped == 0:
        return lanes.fill_(-1), 1.0
    first_kept = dropped - 2 ** (bits - 1)  # the integers are signed
    keep = lanes.clamp_(first_kept - 1, first_kept).sub_(first_kept).bitwise_not_()
    return keep, 2**bits / (2**bits - dropped)


def apply_keep(values: Tensor, keep: Tensor) -> Tensor:
    """Return the values with the dropped ones set to zero, without scaling."""
    return (values.view(keep.dtype) & keep).view(values.dtype)


def _draw_seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_())


def _random_integers(like: Tensor, seed: int | None) -> Tensor:
    """Draw uniform integers as wide as the values of ``like``, over their full range.

    On a CPU, torch's generator only draws the seed. So its state determines the draw, and restoring
    the state repeats it. Drawing all integers from torch's generator would take twice as long.
    """
    size = like.element_size()
    count = like.numel() * size // 8 + 1  # number of 8-byte integers
    if like.device.type == "cpu":
        bits = np.random.SFC64(_draw_seed() if seed is None else seed).random_raw(count)
        drawn = torch.from_numpy(bits.view(np.int64))
    else:
        lowest = torch.iinfo(torch.int64).min
        drawn = torch.empty(count, dtype=torch.int64, device=like.device).random_(lowest, None)
    return drawn.view(_INTEGERS[size])[: like.numel()].view(like.shape)
