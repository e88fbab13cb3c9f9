"""The kernels of ``heedful.layers.fused_kernels``, computed with torch.

They replace the kernels where there is no Triton. They read and write the same tensors, and check
their arguments.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor


class Kernel:
    """Called like a Triton kernel: ``kernel[grid](...)``."""

    def __init__(self, compute: Callable[..., None]) -> None:
        self.compute = compute

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return the kernel for a grid of programs."""
        return partial(self.compute, grid)


def keep_mask(key: int, least: int, num_rows: int, width: int) -> Tensor:
    """Return which values are kept: the same mask for the same key."""
    assert 2**62 <= key < 2**63
    generator = torch.Generator().manual_seed(key % 2**40)
    return torch.randint(2**31, (num_rows, width), generator=generator) >= least


def check(num_rows: int, width: int, quarter: int, num_warps: int, *tensors: Tensor) -> None:
    """Check the arguments that all row kernels share."""
    assert quarter & (quarter - 1) == 0
    assert 4 * quarter >= width
    assert num_warps & (num_warps - 1) == 0
    for tensor in tensors:
        assert tensor.is_contiguous()
        assert tensor.numel() == num_rows * width


def _dropout_add_norm_forward(
    grid: tuple[int, ...],
    projected: Tensor,
    bias: Tensor,
    residual: Tensor,
    gamma: Tensor,
    beta: Tensor,
    output: Tensor,
    summed: Tensor,
    statistics: Tensor,
    num_rows: int,
    width: int,
    eps: float,
    key: int,
    least: int,
    scale: float,
    *,
    has_dropout: bool,
    save_for_backward: bool,
    quarter: int,
    num_warps: int,
) -> None:
    check(num_rows, width, quarter, num_warps, projected, residual, output, summed)
    assert grid == (num_rows,)
    values = projected.view(num_rows, width) + bias
    if has_dropout:
        values = torch.where(keep_mask(key, least, num_rows, width), values * scale, 0)
    values = values + residual.view(num_rows, width)
    mean = values.mean(1)
    rstd = (values.var(1, correction=0) + eps).rsqrt()
    normalised = (values - mean[:, None]) * rstd[:, None]
    output.view(num_rows, width).copy_(normalised * gamma + beta)
    if save_for_backward:
        summed.view(num_rows, width).copy_(values)
        statistics.copy_(torch.stack([mean, rstd]))


def _dropout_add_norm_backward(
    grid: tuple[int, ...],
    grad: Tensor,
    summed: Tensor,
    statistics: Tensor,
    gamma: Tensor,
    grad_summed: Tensor,
    grad_projected: Tensor,
    sums: Tensor,
    num_rows: int,
    width: int,
    key: int,
    least: int,
    scale: float,
    *,
    has_dropout: bool,
    quarter: int,
    num_warps: int,
) -> None:
    check(num_rows, width, quarter, num_warps, grad, summed, grad_summed, grad_projected)
    assert sums.shape == (*grid, 3, width)
    mean, rstd = statistics[:, :, None]
    normalised = (summed.view(num_rows, width) - mean) * rstd
    grad_rows = grad.view(num_rows, width)
    grad_normalised = grad_rows * gamma
    mean_dot = (grad_normalised * normalised).mean(1, keepdim=True)
    grad_sum = (
        grad_normalised - normalised * mean_dot - grad_normalised.mean(1, keepdim=True)
    ) * rstd
    grad_summed.view(num_rows, width).copy_(grad_sum)
    if has_dropout:
        grad_sum = torch.where(keep_mask(key, least, num_rows, width), grad_sum * scale, 0)
        grad_projected.view(num_rows, width).copy_(grad_sum)
    sums.zero_()
    sums[-1] = torch.stack([(grad_rows * normalised).sum(0), grad_rows.sum(0), grad_sum.sum(0)])


def _gelu_backward(
    grid: tuple[int, ...],
    grad: Tensor,
    pre_activation: Tensor,
    grad_pre_activation: Tensor,
    sums: Tensor,
    num_rows: int,
    width: int,
    *,
    block_rows: int,
    block_columns: int,
) -> None:
    assert grid == (-(-width // block_columns), len(sums))
    assert (len(sums) - 1) * block_rows < num_rows
    values = pre_activation.view(num_rows, width)
    cdf = (1 + (values / math.sqrt(2)).erf()) / 2
    pdf = (-values.square() / 2).exp() / math.sqrt(2 * math.pi)
    grad_rows = grad.view(num_rows, width) * (cdf + values * pdf)
    grad_pre_activation.view(num_rows, width).copy_(grad_rows)
    sums.zero_()
    sums[-1] = grad_rows.sum(0)


kernels: Any = type("Kernels", (), {})()
"""Replaces the module."""
kernels.dropout_add_norm_forward = Kernel(_dropout_add_norm_forward)
kernels.dropout_add_norm_backward = Kernel(_dropout_add_norm_backward)
kernels.gelu_backward = Kernel(_gelu_backward)
