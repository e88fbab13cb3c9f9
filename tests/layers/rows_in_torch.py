"""What the kernels of ``heedful.layers.row_kernels`` are asked for, computed with torch.

It stands in for them where there is no Triton. It reads and writes the same tensors, and checks
what it is called with.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor


class Kernel:
    """Called as Triton's: ``kernel[grid](...)``."""

    def __init__(self, compute: Callable[..., None]) -> None:
        self.compute = compute

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return what computes with so many programs."""
        return partial(self.compute, grid)


def drawn(key: int, least: int, rows: int, width: int) -> Tensor:
    """Tell which numbers are kept: the same ones for the same key."""
    assert 2**62 <= key < 2**63
    generator = torch.Generator().manual_seed(key % 2**40)
    return torch.randint(2**31, (rows, width), generator=generator) >= least


def check(rows: int, width: int, quarter: int, num_warps: int, *tensors: Tensor) -> None:
    """Check what every kernel of whole rows is told."""
    assert quarter & (quarter - 1) == 0
    assert 4 * quarter >= width
    assert num_warps & (num_warps - 1) == 0
    for tensor in tensors:
        assert tensor.is_contiguous()
        assert tensor.numel() == rows * width


def _end_forward(
    grid: tuple[int, ...],
    projected: Tensor,
    bias: Tensor,
    hidden: Tensor,
    gain: Tensor,
    offset: Tensor,
    ended: Tensor,
    added: Tensor,
    statistics: Tensor,
    rows: int,
    width: int,
    eps: float,
    key: int,
    least: int,
    scale: float,
    *,
    drops: bool,
    keeps: bool,
    quarter: int,
    num_warps: int,
) -> None:
    check(rows, width, quarter, num_warps, projected, hidden, ended, added)
    assert grid == (rows,)
    values = projected.view(rows, width) + bias
    if drops:
        values = torch.where(drawn(key, least, rows, width), values * scale, 0)
    values = values + hidden.view(rows, width)
    mean = values.mean(1)
    sharpness = (values.var(1, correction=0) + eps).rsqrt()
    normalised = (values - mean[:, None]) * sharpness[:, None]
    ended.view(rows, width).copy_(normalised * gain + offset)
    if keeps:
        added.view(rows, width).copy_(values)
        statistics.copy_(torch.stack([mean, sharpness]))


def _end_backward(
    grid: tuple[int, ...],
    grad: Tensor,
    added: Tensor,
    statistics: Tensor,
    gain: Tensor,
    of_added: Tensor,
    of_projected: Tensor,
    sums: Tensor,
    rows: int,
    width: int,
    key: int,
    least: int,
    scale: float,
    *,
    drops: bool,
    quarter: int,
    num_warps: int,
) -> None:
    check(rows, width, quarter, num_warps, grad, added, of_added, of_projected)
    assert sums.shape == (*grid, 3, width)
    mean, sharpness = statistics[:, :, None]
    normalised = (added.view(rows, width) - mean) * sharpness
    back = grad.view(rows, width)
    scaled = back * gain
    along = (scaled * normalised).mean(1, keepdim=True)
    back_added = (scaled - normalised * along - scaled.mean(1, keepdim=True)) * sharpness
    of_added.view(rows, width).copy_(back_added)
    if drops:
        back_added = torch.where(drawn(key, least, rows, width), back_added * scale, 0)
        of_projected.view(rows, width).copy_(back_added)
    sums.zero_()
    sums[-1] = torch.stack([(back * normalised).sum(0), back.sum(0), back_added.sum(0)])


def _gelu_backward(
    grid: tuple[int, ...],
    grad: Tensor,
    widened: Tensor,
    of_widened: Tensor,
    sums: Tensor,
    rows: int,
    width: int,
    *,
    height: int,
    breadth: int,
) -> None:
    assert grid == (-(-width // breadth), len(sums))
    assert (len(sums) - 1) * height < rows
    values = widened.view(rows, width)
    share = (1 + (values / math.sqrt(2)).erf()) / 2
    density = (-values.square() / 2).exp() / math.sqrt(2 * math.pi)
    back = grad.view(rows, width) * (share + values * density)
    of_widened.view(rows, width).copy_(back)
    sums.zero_()
    sums[-1] = back.sum(0)


kernels: Any = type("Kernels", (), {})()
"""In the place of the module."""
kernels.end_forward = Kernel(_end_forward)
kernels.end_backward = Kernel(_end_backward)
kernels.gelu_backward = Kernel(_gelu_backward)
