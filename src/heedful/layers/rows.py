"""What is done to rows between two products of a block, each time as one kernel of a GPU.

A part of a post-norm block ends by adding a bias, dropping, adding what it read and normalising.
As operations of torch these read and write all rows again and again, which took a GPU a third of a
step of training. Here they are read and written once, and the gradients of the vectors are added up
on the way. What is dropped is drawn again in the backward pass.

The kernels are Triton's, which comes with torch for NVIDIA's GPUs and needs a C compiler. Where
they are not there, torch's own operations compute the same.

Shapes: N rows (all dimensions but the last), I width of what comes in, D width of what comes out.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from subprocess import SubprocessError
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.layers.linear import is_plainly_called
from heedful.layers.probing import why_not

_KIND = "cuda"
"""What the kernels are for."""

_FORMATS = (torch.bfloat16, torch.float16)
"""What they read and write; they compute in float32."""

_FEW = 2**17
"""Numbers below which all is left to torch: to load the kernels takes longer than a few texts."""

_FEW_TO_LEARN = 2**23
"""The same where the gradient is wanted: the host takes longer than a GPU then."""

_WIDEST = 4096
"""The widest row that a program holds."""

_DRAWN = 2**31
"""The numbers that are drawn are below it."""

_PROGRAMS = 8
"""Programs at once of each of a GPU's processors, in the backward pass."""

_TILE = (8, 256)
"""Rows and columns that a program reads at once, where rows need not be whole."""


def fits(dense: nn.Linear, norm: nn.LayerNorm, inner: Tensor, hidden: Tensor) -> bool:
    """Tell whether `end` computes the end of a part: on a GPU, in half precision."""
    if inner.device.type != _KIND or type(norm) is not nn.LayerNorm:
        return False
    vectors = (dense.bias, norm.weight, norm.bias)
    if hidden.shape[-1] > _WIDEST or any(vector is None for vector in vectors):
        return False
    return _there((hidden, inner, dense.weight, *vectors), hidden)


def fits_gelu(dense: nn.Linear, activation: Callable[[Tensor], Tensor], hidden: Tensor) -> bool:
    """Tell whether `gelu` computes an activated product, and its gradient is wanted."""
    return (
        activation is F.gelu
        and torch.is_grad_enabled()
        and dense.weight.requires_grad
        and dense.bias is not None
        and _there((hidden, dense.weight, dense.bias), hidden)
    )


def _there(tensors: tuple[Tensor, ...], first: Tensor) -> bool:
    """Tell whether the kernels compute with some tensors; one of them has all rows."""
    return (
        first.device.type == _KIND
        and first.numel() >= max(_FEW_TO_LEARN if torch.is_grad_enabled() else _FEW, 1)
        and first.dtype in _FORMATS
        and all(tensor.dtype is first.dtype for tensor in tensors)
        and all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
        and is_plainly_called(_KIND)
        and why_no_kernels(first.device) is None
    )


@lru_cache
def why_no_kernels(device: torch.device) -> str | None:
    """Return why a device does not compute with these kernels, or None if it does."""
    try:
        from triton.errors import TritonError
    except ImportError as error:
        return str(error)
    try:
        return why_not(lambda: _computes_right(device))
    except (TritonError, OSError, SubprocessError) as error:  # such as of no C compiler
        return str(error).partition("\n")[0] or type(error).__name__


def end(
    inner: Tensor,
    dense: nn.Linear,
    hidden: Tensor,
    norm: nn.LayerNorm,
    *,
    dropout: float,
) -> Tensor:
    """Return ``norm(dropout(dense(inner)) + hidden)``.

    Args:
        inner: what the part computed. Shape (..., I).
        dense: what projects it; it `fits`.
        hidden: what the part read. Shape (..., D).
        norm: what normalises the sum.
        dropout: probability with which a projected value is dropped.
    """
    rest = (dense.weight, dense.bias, hidden, norm.weight, norm.bias, norm.eps, dropout)
    if torch.is_grad_enabled():
        ended: Tensor = _End.apply(inner, *rest)  # type: ignore[no-untyped-call]
        return ended
    return _end(inner, *rest, keeps=False)[0]


def gelu(hidden: Tensor, dense: nn.Linear) -> Tensor:
    """Return ``GELU(dense(hidden))``, where that `fits_gelu`. Shape (..., D) for (..., I)."""
    activated: Tensor = _Gelu.apply(hidden, dense.weight, dense.bias)  # type: ignore[no-untyped-call]
    return activated


def fits_together(layers: Sequence[nn.Linear], hidden: Tensor) -> bool:
    """Tell whether `together` computes what several layers make of the same states."""
    if hidden.device.type != _KIND or any(layer.bias is None for layer in layers):
        return False
    weights = [part for layer in layers for part in (layer.weight, layer.bias)]
    return _there((hidden, *weights), hidden)


def together(hidden: Tensor, layers: Sequence[nn.Linear]) -> list[Tensor]:
    """Return what each of some layers makes of the same states, by one product.

    Args:
        hidden: shape (..., I).
        layers: which; they `fits_together`.

    Returns:
        Shape (..., O) for each.
    """
    weights, biases = [each.weight for each in layers], [each.bias for each in layers]
    if torch.is_grad_enabled():
        products: tuple[Tensor, ...] = _Together.apply(hidden, *weights, *biases)  # type: ignore[no-untyped-call]
        return list(products)
    return _together(hidden, weights, biases)


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        count = len(parts) // 2
        ctx.save_for_backward(hidden, *parts[:count])
        return tuple(_together(hidden, parts[:count], parts[count:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *weights = ctx.saved_tensors
        rows = [grad.reshape(-1, grad.shape[-1]) for grad in grads]  # (N, O) each
        flat = hidden.reshape(-1, hidden.shape[-1])
        of_hidden = None
        if ctx.needs_input_grad[0]:
            of_hidden = rows[0] @ weights[0]
            for each, weight in zip(rows[1:], weights[1:], strict=True):
                of_hidden.addmm_(each, weight)  # without another pass to add them up
            of_hidden = of_hidden.view(hidden.shape)
        wanted = ctx.needs_input_grad[1:]
        of_weights = [each.T @ flat if w else None for each, w in zip(rows, wanted, strict=False)]
        # Torch's own sum takes a GPU twice as long.
        ones = flat.new_ones(1, len(flat))
        of_biases = [(ones @ each)[0] for each in rows]
        return of_hidden, *of_weights, *of_biases


def _together(hidden: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    product = F.linear(hidden, torch.cat(list(weights)), torch.cat(list(biases)))
    return list(torch.split(product, [len(weight) for weight in weights], dim=-1))


class _End(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inner: Tensor,
        weight: Tensor,
        bias: Tensor,
        hidden: Tensor,
        gain: Tensor,
        offset: Tensor,
        eps: float,
        dropout: float,
    ) -> Tensor:
        ended, added, statistics, ctx.draw = _end(
            inner, weight, bias, hidden, gain, offset, eps, dropout, keeps=True
        )
        ctx.save_for_backward(inner, weight, gain, added, statistics)
        return ended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inner, weight, gain, added, statistics = ctx.saved_tensors
        from heedful.layers import row_kernels

        grad = grad.contiguous()
        rows, width = statistics.shape[1], len(gain)
        key, least, scale = ctx.draw
        quarter = _quarter(width)
        of_added = torch.empty_like(grad)
        of_projected = torch.empty_like(grad) if least else of_added
        programs = min(rows, _PROGRAMS * _processors(grad.device))
        sums = grad.new_empty(programs, 3, width, dtype=torch.float32)
        row_kernels.end_backward[(programs,)](
            grad,
            added,
            statistics,
            gain,
            of_added,
            of_projected,
            sums,
            rows,
            width,
            key,
            least,
            scale,
            drops=least > 0,
            quarter=quarter,
            num_warps=_warps(quarter),
        )
        of_gain, of_offset, of_bias = sums.sum(0).to(grad.dtype).unbind()
        flat = of_projected.view(rows, width)
        of_inner = of_weight = None
        if ctx.needs_input_grad[0]:
            of_inner = F.linear(of_projected, weight.T)
        if ctx.needs_input_grad[1]:
            of_weight = flat.T @ inner.reshape(rows, -1)
        return of_inner, of_weight, of_bias, of_added, of_gain, of_offset, None, None


def _end(
    inner: Tensor,
    weight: Tensor,
    bias: Tensor,
    hidden: Tensor,
    gain: Tensor,
    offset: Tensor,
    eps: float,
    dropout: float,
    *,
    keeps: bool,
) -> tuple[Tensor, Tensor, Tensor, tuple[int, int, float]]:
    """Return what the part ends with, what it added up, its means and deviations, and the draw."""
    from heedful.layers import row_kernels

    projected, hidden = F.linear(inner, weight), hidden.contiguous()
    width = len(gain)
    rows = hidden.numel() // width
    draw = _draw(hidden.device, dropout)
    key, least, scale = draw
    quarter = _quarter(width)
    ended = torch.empty_like(hidden)
    added = torch.empty_like(hidden) if keeps else ended
    statistics = hidden.new_empty(2, rows if keeps else 0, dtype=torch.float32)
    row_kernels.end_forward[(rows,)](
        projected,
        bias,
        hidden,
        gain,
        offset,
        ended,
        added,
        statistics,
        rows,
        width,
        eps,
        key,
        least,
        scale,
        drops=least > 0,
        keeps=keeps,
        quarter=quarter,
        num_warps=_warps(quarter),
    )
    return ended, added, statistics, draw


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        widened = F.linear(hidden, weight, bias)
        ctx.save_for_backward(hidden, weight, widened)
        return F.gelu(widened)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, widened = ctx.saved_tensors
        from heedful.layers import row_kernels

        grad = grad.contiguous()
        width = widened.shape[-1]
        rows = widened.numel() // width
        height, breadth = _TILE
        blocks = -(-width // breadth)
        most = 2 * _PROGRAMS * _processors(grad.device) // blocks
        programs = max(min(most, -(-rows // height)), 1)
        of_widened = torch.empty_like(widened)
        sums = grad.new_empty(programs, width, dtype=torch.float32)
        row_kernels.gelu_backward[(blocks, programs)](
            grad, widened, of_widened, sums, rows, width, height=height, breadth=breadth
        )
        of_hidden = F.linear(of_widened, weight.T) if ctx.needs_input_grad[0] else None
        of_weight = of_widened.view(rows, width).T @ hidden.reshape(rows, -1)
        return of_hidden, of_weight, sums.sum(0).to(grad.dtype)


def _quarter(width: int) -> int:
    """Return the width of the four segments that a row is read in."""
    return max(16, 1 << (-(-width // 4) - 1).bit_length())


def _warps(quarter: int) -> int:
    """Return how many groups of 32 threads share a row: one is the fastest, if it holds a row."""
    return max(1, quarter // 256)


@lru_cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _draw(device: torch.device, probability: float) -> tuple[int, int, float]:
    """Draw what to drop, from torch's generator of the device.

    Returns:
        The key of the draw, the least number that is kept, and what to multiply by what is kept.
    """
    least = min(round(probability * _DRAWN), _DRAWN - 1)
    if not least:
        return 2**62, 0, 1.0
    generator = torch.cuda.default_generators[device.index or 0]
    number = generator.get_offset()
    generator.set_offset(number + 4)  # a multiple of 4, as torch's own kernels move it
    return _mixed(generator.initial_seed(), number), least, _DRAWN / (_DRAWN - least)


def _mixed(seed: int, number: int) -> int:
    """Return a key that depends on all bits of both (the last step of SplitMix64).

    The kernels take it as a number of 64 bits, whose highest two are the same for all.
    """
    mask = 2**64 - 1
    bits = (seed + number * 0x9E3779B97F4A7C15) & mask
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    bits ^= bits >> 31
    return 2**62 | (bits & (2**62 - 1))


def _computes_right(device: torch.device) -> bool:
    """Compare values and gradients with torch's own."""

    def numbers(*shape: int) -> Tensor:
        return torch.linspace(-2, 2, math.prod(shape), device=device).sin().view(shape)

    with torch.inference_mode(False), torch.enable_grad():
        # Not initialized: what is drawn elsewhere does not depend on it.
        dense: nn.Linear = nn.utils.skip_init(nn.Linear, 24, 24, device=device)  # type: ignore[no-untyped-call]
        norm = nn.LayerNorm(24, device=device)
        for parameter in (dense.weight, dense.bias, norm.weight, norm.bias):
            parameter.data = numbers(*parameter.shape)
        dense, norm = dense.to(torch.bfloat16), norm.to(torch.bfloat16)
        inner, hidden = (numbers(2, 3, 24).to(torch.bfloat16) for _ in range(2))
        answers = []
        for fused in (True, False):
            read = hidden.detach().requires_grad_()
            if fused:
                ended = end(gelu(inner, dense), dense, read, norm, dropout=0.0)
            else:
                ended = norm(dense(F.gelu(dense(inner))) + read)
            wanted = (read, dense.weight, dense.bias, norm.weight, norm.bias)
            answers.append([ended, *torch.autograd.grad(ended.sin().sum(), wanted)])
        return all(
            torch.allclose(ours.float(), theirs.float(), rtol=0.05, atol=0.1)
            for ours, theirs in zip(*answers, strict=True)
        )
