"""Fused GPU kernels for the element-wise work between a block's matrix products.

A sublayer of a post-norm block ends with bias, dropout, residual connection and layer
normalisation. As separate torch operations these read and write all rows several times, which took
a third of a training step on a GPU. One fused kernel reads and writes each row once. Its backward
pass also accumulates the gradients of the bias and of the normalisation's weight and bias, and
draws the dropout mask again.

The kernels use Triton, which comes with torch for NVIDIA GPUs and needs a C compiler. Without
Triton, torch's own operations compute the same result.

Shapes: N rows (all dimensions but the last), I input width, D and O output width.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from subprocess import SubprocessError
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.derivatives import once_differentiable
from heedful.layers.kernel_check import kernel_error
from heedful.layers.linear import is_eager, is_plain

_DEVICE_TYPE = "cuda"
"""The device type that the kernels support."""

_DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes of the kernels' inputs and outputs; they compute in float32."""

_MIN_SIZE = 2**17
"""Fewest values to use the kernels for. Below this size, loading them takes longer than computing
a few texts."""

_MIN_SIZE_TRAINING = 2**23
"""Fewest values to use the kernels for if gradients are needed. Below this size, the overhead on
the host exceeds the time on the GPU."""

_MAX_WIDTH = 4096
"""Largest row width that a program can hold."""

_RANDOM_RANGE = 2**31
"""Exclusive upper bound of the random numbers."""

_PROGRAMS_PER_SM = 8
"""Number of concurrent programs per streaming multiprocessor, in the backward pass."""

_TILE = (8, 256)
"""Rows and columns of the tile that a program reads at once, if it need not read whole rows."""


def supports_dropout_add_norm(
    dense: nn.Linear, norm: nn.LayerNorm, inner: Tensor, hidden: Tensor
) -> bool:
    """Return whether `dropout_add_norm` supports these inputs: on a GPU, in half precision."""
    if inner.device.type != _DEVICE_TYPE or not (is_plain(dense) and is_plain(norm)):
        return False
    vectors = (dense.bias, norm.weight, norm.bias)
    if hidden.shape[-1] > _MAX_WIDTH or any(vector is None for vector in vectors):
        return False
    return _supported((hidden, inner, dense.weight, *vectors), hidden)


def supports_gelu(dense: nn.Linear, activation: Callable[[Tensor], Tensor], hidden: Tensor) -> bool:
    """Return whether `gelu` supports these inputs, and their gradient is needed."""
    return (
        activation is F.gelu
        and torch.is_grad_enabled()
        and is_plain(dense)
        and dense.weight.requires_grad
        and dense.bias is not None
        and _supported((hidden, dense.weight, dense.bias), hidden)
    )


def _supported(tensors: tuple[Tensor, ...], first: Tensor) -> bool:
    """Return whether the kernels support these tensors; ``first`` has all rows."""
    return (
        first.device.type == _DEVICE_TYPE
        and first.numel() >= max(_MIN_SIZE_TRAINING if torch.is_grad_enabled() else _MIN_SIZE, 1)
        and first.dtype in _DTYPES
        and all(tensor.dtype is first.dtype for tensor in tensors)
        and all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
        and is_eager(_DEVICE_TYPE)
        and why_no_kernels(first.device) is None
    )


@lru_cache
def why_no_kernels(device: torch.device) -> str | None:
    """Return why the kernels do not work on a device, or None if they do."""
    try:
        from triton.errors import TritonError
    except ImportError as error:
        return str(error)
    try:
        return kernel_error(lambda: _computes_right(device))
    except (TritonError, OSError, SubprocessError) as error:  # for example, no C compiler
        return str(error).partition("\n")[0] or type(error).__name__


def dropout_add_norm(
    inner: Tensor,
    dense: nn.Linear,
    hidden: Tensor,
    norm: nn.LayerNorm,
    *,
    dropout: float,
) -> Tensor:
    """Return ``norm(dropout(dense(inner)) + hidden)``.

    Args:
        inner: the sublayer's values before projection. Shape (..., I).
        dense: the output projection; `supports_dropout_add_norm` must be true.
        hidden: the residual. Shape (..., D).
        norm: normalises the sum.
        dropout: dropout probability of the projected values.
    """
    arguments = (dense.weight, dense.bias, hidden, norm.weight, norm.bias, norm.eps, dropout)
    if torch.is_grad_enabled():
        output: Tensor = _DropoutAddNorm.apply(inner, *arguments)  # type: ignore[no-untyped-call]
        return output
    return _dropout_add_norm(inner, *arguments, save_for_backward=False)[0]


def gelu(hidden: Tensor, dense: nn.Linear) -> Tensor:
    """Return ``GELU(dense(hidden))`` if `supports_gelu` is true. Shape (..., D) for (..., I)."""
    activated: Tensor = _Gelu.apply(hidden, dense.weight, dense.bias)  # type: ignore[no-untyped-call]
    return activated


def supports_fused_linear(layers: Sequence[nn.Linear], hidden: Tensor) -> bool:
    """Return whether `fused_linear` supports these layers and hidden states."""
    if hidden.device.type != _DEVICE_TYPE or not all(is_plain(layer) for layer in layers):
        return False
    if any(layer.bias is None for layer in layers):
        return False
    weights = [part for layer in layers for part in (layer.weight, layer.bias)]
    return _supported((hidden, *weights), hidden)


def fused_linear(hidden: Tensor, layers: Sequence[nn.Linear]) -> list[Tensor]:
    """Return the outputs of several linear layers for the same input, by one matrix product.

    Args:
        hidden: shape (..., I).
        layers: the layers; `supports_fused_linear` must be true.

    Returns:
        Shape (..., O) for each layer.
    """
    weights, biases = [each.weight for each in layers], [each.bias for each in layers]
    if torch.is_grad_enabled():
        products: tuple[Tensor, ...] = _FusedLinear.apply(hidden, *weights, *biases)  # type: ignore[no-untyped-call]
        return list(products)
    return _fused_linear(hidden, weights, biases)


class _FusedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        num_layers = len(parameters) // 2
        ctx.save_for_backward(hidden, *parameters[:num_layers])
        return tuple(_fused_linear(hidden, parameters[:num_layers], parameters[num_layers:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *weights = ctx.saved_tensors
        flat_grads = [grad.reshape(-1, grad.shape[-1]) for grad in grads]  # (N, O) each
        flat_hidden = hidden.reshape(-1, hidden.shape[-1])
        grad_hidden = None
        if ctx.needs_input_grad[0]:
            grad_hidden = flat_grads[0] @ weights[0]
            for flat_grad, weight in zip(flat_grads[1:], weights[1:], strict=True):
                grad_hidden.addmm_(flat_grad, weight)  # accumulates without an extra pass
            grad_hidden = grad_hidden.view(hidden.shape)
        needs_grad = ctx.needs_input_grad[1:]
        grad_weights = [
            flat_grad.T @ flat_hidden if needed else None
            for flat_grad, needed in zip(flat_grads, needs_grad, strict=False)
        ]
        # Torch's own sum takes twice as long on a GPU.
        ones = flat_hidden.new_ones(1, len(flat_hidden))
        grad_biases = [(ones @ flat_grad)[0] for flat_grad in flat_grads]
        return grad_hidden, *grad_weights, *grad_biases


def _fused_linear(
    hidden: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> list[Tensor]:
    product = F.linear(hidden, torch.cat(list(weights)), torch.cat(list(biases)))
    return list(torch.split(product, [len(weight) for weight in weights], dim=-1))


class _DropoutAddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inner: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float,
        dropout: float,
    ) -> Tensor:
        output, summed, statistics, ctx.draw = _dropout_add_norm(
            inner, weight, bias, residual, gamma, beta, eps, dropout, save_for_backward=True
        )
        ctx.save_for_backward(inner, weight, gamma, summed, statistics)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inner, weight, gamma, summed, statistics = ctx.saved_tensors
        from heedful.layers import fused_kernels

        grad = grad.contiguous()
        num_rows, width = statistics.shape[1], len(gamma)
        key, least, scale = ctx.draw
        quarter = _quarter(width)
        grad_summed = torch.empty_like(grad)
        grad_projected = torch.empty_like(grad) if least else grad_summed
        programs = min(num_rows, _PROGRAMS_PER_SM * _num_processors(grad.device))
        sums = grad.new_empty(programs, 3, width, dtype=torch.float32)
        fused_kernels.dropout_add_norm_backward[(programs,)](
            grad,
            summed,
            statistics,
            gamma,
            grad_summed,
            grad_projected,
            sums,
            num_rows,
            width,
            key,
            least,
            scale,
            has_dropout=least > 0,
            quarter=quarter,
            num_warps=_num_warps(quarter),
        )
        grad_gamma, grad_beta, grad_bias = sums.sum(0).to(grad.dtype).unbind()
        flat_grad = grad_projected.view(num_rows, width)
        grad_inner = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_inner = F.linear(grad_projected, weight.T)
        if ctx.needs_input_grad[1]:
            grad_weight = flat_grad.T @ inner.reshape(num_rows, -1)
        return grad_inner, grad_weight, grad_bias, grad_summed, grad_gamma, grad_beta, None, None


def _dropout_add_norm(
    inner: Tensor,
    weight: Tensor,
    bias: Tensor,
    residual: Tensor,
    gamma: Tensor,
    beta: Tensor,
    eps: float,
    dropout: float,
    *,
    save_for_backward: bool,
) -> tuple[Tensor, Tensor, Tensor, tuple[int, int, float]]:
    """Return the output, the sum before normalisation, mean and rstd of the rows, and the draw.

    Sum and statistics are only valid if they are saved for the backward pass.
    """
    from heedful.layers import fused_kernels

    projected, residual = F.linear(inner, weight), residual.contiguous()
    width = len(gamma)
    num_rows = residual.numel() // width
    draw = _draw(residual.device, dropout)
    key, least, scale = draw
    quarter = _quarter(width)
    output = torch.empty_like(residual)
    summed = torch.empty_like(residual) if save_for_backward else output
    statistics = residual.new_empty(2, num_rows if save_for_backward else 0, dtype=torch.float32)
    fused_kernels.dropout_add_norm_forward[(num_rows,)](
        projected,
        bias,
        residual,
        gamma,
        beta,
        output,
        summed,
        statistics,
        num_rows,
        width,
        eps,
        key,
        least,
        scale,
        has_dropout=least > 0,
        save_for_backward=save_for_backward,
        quarter=quarter,
        num_warps=_num_warps(quarter),
    )
    return output, summed, statistics, draw


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        pre_activation = F.linear(hidden, weight, bias)
        ctx.save_for_backward(hidden, weight, pre_activation)
        return F.gelu(pre_activation)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, pre_activation = ctx.saved_tensors
        from heedful.layers import fused_kernels

        grad = grad.contiguous()
        width = pre_activation.shape[-1]
        num_rows = pre_activation.numel() // width
        block_rows, block_columns = _TILE
        column_blocks = -(-width // block_columns)
        max_programs = 2 * _PROGRAMS_PER_SM * _num_processors(grad.device) // column_blocks
        programs = max(min(max_programs, -(-num_rows // block_rows)), 1)
        grad_pre_activation = torch.empty_like(pre_activation)
        sums = grad.new_empty(programs, width, dtype=torch.float32)
        fused_kernels.gelu_backward[(column_blocks, programs)](
            grad,
            pre_activation,
            grad_pre_activation,
            sums,
            num_rows,
            width,
            block_rows=block_rows,
            block_columns=block_columns,
        )
        grad_hidden = F.linear(grad_pre_activation, weight.T) if ctx.needs_input_grad[0] else None
        grad_weight = grad_pre_activation.view(num_rows, width).T @ hidden.reshape(num_rows, -1)
        return grad_hidden, grad_weight, sums.sum(0).to(grad.dtype)


def _quarter(width: int) -> int:
    """Return the width of each of the four segments of a row; see ``fused_kernels.py``."""
    return max(16, 1 << (-(-width // 4) - 1).bit_length())


def _num_warps(quarter: int) -> int:
    """Return the number of warps per row. One is the fastest, if it can hold the row."""
    return max(1, quarter // 256)


@lru_cache
def _num_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _draw(device: torch.device, probability: float) -> tuple[int, int, float]:
    """Draw a dropout mask's key from torch's generator of the device.

    Returns:
        The key, the smallest random number whose value is kept, and the factor of the kept values.
    """
    least = min(round(probability * _RANDOM_RANGE), _RANDOM_RANGE - 1)
    if not least:
        return 2**62, 0, 1.0
    generator = torch.cuda.default_generators[device.index or 0]
    offset = generator.get_offset()
    generator.set_offset(offset + 4)  # a multiple of 4, like the offsets of torch's own kernels
    return (
        _mix_seed(generator.initial_seed(), offset),
        least,
        _RANDOM_RANGE / (_RANDOM_RANGE - least),
    )


def _mix_seed(seed: int, offset: int) -> int:
    """Return a key that depends on all bits of seed and offset (the last step of SplitMix64).

    The kernels take it as a 64-bit integer. Its two highest bits are the same for all keys.
    """
    mask = 2**64 - 1
    bits = (seed + offset * 0x9E3779B97F4A7C15) & mask
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    bits ^= bits >> 31
    return 2**62 | (bits & (2**62 - 1))


def _computes_right(device: torch.device) -> bool:
    """Return whether values and gradients match those of torch's own operations."""

    def values(*shape: int) -> Tensor:
        return torch.linspace(-2, 2, math.prod(shape), device=device).sin().view(shape)

    with torch.inference_mode(False), torch.enable_grad():
        # Skip initialisation: it would advance the global random generator.
        dense: nn.Linear = nn.utils.skip_init(nn.Linear, 24, 24, device=device)  # type: ignore[no-untyped-call]
        norm = nn.LayerNorm(24, device=device)
        for parameter in (dense.weight, dense.bias, norm.weight, norm.bias):
            parameter.data = values(*parameter.shape)
        dense, norm = dense.to(torch.bfloat16), norm.to(torch.bfloat16)
        inner, hidden = (values(2, 3, 24).to(torch.bfloat16) for _ in range(2))
        results = []
        for fused in (True, False):
            residual = hidden.detach().requires_grad_()
            if fused:
                output = dropout_add_norm(gelu(inner, dense), dense, residual, norm, dropout=0.0)
            else:
                output = norm(dense(F.gelu(dense(inner))) + residual)
            inputs = (residual, dense.weight, dense.bias, norm.weight, norm.bias)
            results.append([output, *torch.autograd.grad(output.sin().sum(), inputs)])
        return all(
            torch.allclose(fused_result.float(), expected.float(), rtol=0.05, atol=0.1)
            for fused_result, expected in zip(*results, strict=True)
        )
