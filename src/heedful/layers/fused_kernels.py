"""Triton kernels for the element-wise work between matrix products; ``fused.py`` launches them.

Each program holds one row, or a tile of rows and columns, in registers. A row is read in four
segments (a, b, c, d), because Triton's random generator returns four numbers per call. The dropout
mask of a row depends only on the key of the draw and the row index, so the backward pass can draw
it again.

Gamma and beta are the weight and bias of the layer normalisation. Rstd is the reciprocal of its
standard deviation.

Shapes: N rows, D row width, Q segment width (``quarter``): a power of 2 with 4 * Q at least D, P
programs.
"""

import triton
import triton.language as tl


@triton.jit
def _read(pointer, base, start, width, quarter: tl.constexpr):
    """Return a segment of a row in float32, with zeros past the end of the row."""
    columns = start + tl.arange(0, quarter)
    return tl.load(pointer + base + columns, mask=columns < width, other=0.0).to(tl.float32)


@triton.jit
def _read_row(pointer, base, width, quarter: tl.constexpr):
    """Return the four segments of a row."""
    return (
        _read(pointer, base, 0, width, quarter),
        _read(pointer, base, quarter, width, quarter),
        _read(pointer, base, 2 * quarter, width, quarter),
        _read(pointer, base, 3 * quarter, width, quarter),
    )


@triton.jit
def _write(pointer, base, start, width, values, quarter: tl.constexpr):
    columns = start + tl.arange(0, quarter)
    tl.store(pointer + base + columns, values.to(pointer.dtype.element_ty), mask=columns < width)


@triton.jit
def _write_row(pointer, base, width, a, b, c, d, quarter: tl.constexpr):
    _write(pointer, base, 0, width, a, quarter)
    _write(pointer, base, quarter, width, b, quarter)
    _write(pointer, base, 2 * quarter, width, c, quarter)
    _write(pointer, base, 3 * quarter, width, d, quarter)


@triton.jit
def _drop_segment(values, random, least, scale):
    """Apply dropout to a segment: zero the values whose random number is below ``least``."""
    return tl.where((random.to(tl.uint32) >> 1).to(tl.int32) >= least, values * scale, 0.0)


@triton.jit
def _dropout(a, b, c, d, row, key, least, scale, quarter: tl.constexpr):
    """Apply dropout to a row. The same key gives the same mask."""
    random = tl.randint4x(key, row * quarter + tl.arange(0, quarter))
    return (
        _drop_segment(a, random[0], least, scale),
        _drop_segment(b, random[1], least, scale),
        _drop_segment(c, random[2], least, scale),
        _drop_segment(d, random[3], least, scale),
    )


@triton.jit
def _row_sum(a, b, c, d):
    return tl.sum(a + b + c + d, axis=0)


@triton.jit
def _squared_deviations(values, mean, start, width, quarter: tl.constexpr):
    """Return the squared deviations from the mean, with zeros past the end of the row."""
    inside = start + tl.arange(0, quarter) < width
    differences = tl.where(inside, values - mean, 0.0)
    return differences * differences


@triton.jit
def _zero_past_end(values, start, width, quarter: tl.constexpr):
    """Return a segment with zeros past the end of the row."""
    return tl.where(start + tl.arange(0, quarter) < width, values, 0.0)


@triton.jit(do_not_specialize=["key", "least"])
def dropout_add_norm_forward(
    projected,  # (N, D), without the bias
    bias,  # (D,)
    residual,  # (N, D)
    gamma,  # (D,)
    beta,  # (D,)
    output,  # (N, D): written
    summed,  # (N, D): written, if saved for backward
    statistics,  # (2, N), float32: mean and rstd; written, if saved for backward
    num_rows,
    width,
    eps,
    key,  # of the dropout mask
    least,  # the smallest random number whose value is kept
    scale,  # factor of the kept values
    has_dropout: tl.constexpr,
    save_for_backward: tl.constexpr,
    quarter: tl.constexpr,
):
    """Write ``LayerNorm(dropout(projected + bias) + residual)``."""
    row = tl.program_id(0)
    base = row * tl.cast(width, tl.int64)
    a, b, c, d = _read_row(projected, base, width, quarter)
    bias_a, bias_b, bias_c, bias_d = _read_row(bias, 0, width, quarter)
    a, b, c, d = a + bias_a, b + bias_b, c + bias_c, d + bias_d
    if has_dropout:
        a, b, c, d = _dropout(a, b, c, d, row, key, least, scale, quarter)
    # Round the sum as it is stored, so that both passes normalise the same values.
    dtype = residual.dtype.element_ty
    residual_a, residual_b, residual_c, residual_d = _read_row(residual, base, width, quarter)
    a, b = (a + residual_a).to(dtype).to(tl.float32), (b + residual_b).to(dtype).to(tl.float32)
    c, d = (c + residual_c).to(dtype).to(tl.float32), (d + residual_d).to(dtype).to(tl.float32)
    mean = _row_sum(a, b, c, d) / width
    squares = _row_sum(
        _squared_deviations(a, mean, 0, width, quarter),
        _squared_deviations(b, mean, quarter, width, quarter),
        _squared_deviations(c, mean, 2 * quarter, width, quarter),
        _squared_deviations(d, mean, 3 * quarter, width, quarter),
    )
    rstd = 1 / tl.sqrt(squares / width + eps)
    if save_for_backward:
        _write_row(summed, base, width, a, b, c, d, quarter)
        tl.store(statistics + row, mean)
        tl.store(statistics + num_rows + row, rstd)
    gamma_a, gamma_b, gamma_c, gamma_d = _read_row(gamma, 0, width, quarter)
    beta_a, beta_b, beta_c, beta_d = _read_row(beta, 0, width, quarter)
    a = (a - mean) * rstd * gamma_a + beta_a
    b = (b - mean) * rstd * gamma_b + beta_b
    c = (c - mean) * rstd * gamma_c + beta_c
    d = (d - mean) * rstd * gamma_d + beta_d
    _write_row(output, base, width, a, b, c, d, quarter)


@triton.jit
def _norm_backward(grad, normalised, gamma, mean_dot, mean_grad, rstd):
    """Return the gradient of a segment with respect to the input of the normalisation."""
    return (grad * gamma - normalised * mean_dot - mean_grad) * rstd


@triton.jit(do_not_specialize=["key", "least"])
def dropout_add_norm_backward(
    grad,  # (N, D): of the output
    summed,  # (N, D)
    statistics,  # (2, N), float32: mean and rstd
    gamma,  # (D,)
    grad_summed,  # (N, D): written
    grad_projected,  # (N, D): written, if there is dropout
    sums,  # (P, 3, D), float32: written; partial sums of the gradients of gamma, beta and bias
    num_rows,
    width,
    key,  # of the dropout mask
    least,  # the smallest random number whose value is kept
    scale,  # factor of the kept values
    has_dropout: tl.constexpr,
    quarter: tl.constexpr,
):
    """Write the gradients of the sum, and each program's share of the vectors' gradients."""
    gamma_a, gamma_b, gamma_c, gamma_d = _read_row(gamma, 0, width, quarter)
    zeros = tl.zeros([quarter], tl.float32)
    grad_gamma_a, grad_gamma_b, grad_gamma_c, grad_gamma_d = zeros, zeros, zeros, zeros
    grad_beta_a, grad_beta_b, grad_beta_c, grad_beta_d = zeros, zeros, zeros, zeros
    grad_bias_a, grad_bias_b, grad_bias_c, grad_bias_d = zeros, zeros, zeros, zeros
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        base = row * tl.cast(width, tl.int64)
        mean, rstd = tl.load(statistics + row), tl.load(statistics + num_rows + row)
        a, b, c, d = _read_row(grad, base, width, quarter)
        e, f, g, h = _read_row(summed, base, width, quarter)
        e, f, g, h = e - mean, f - mean, g - mean, h - mean
        e, f, g, h = e * rstd, f * rstd, g * rstd, h * rstd  # normalised
        grad_gamma_a, grad_gamma_b = grad_gamma_a + a * e, grad_gamma_b + b * f
        grad_gamma_c, grad_gamma_d = grad_gamma_c + c * g, grad_gamma_d + d * h
        grad_beta_a, grad_beta_b = grad_beta_a + a, grad_beta_b + b
        grad_beta_c, grad_beta_d = grad_beta_c + c, grad_beta_d + d
        mean_grad = _row_sum(a * gamma_a, b * gamma_b, c * gamma_c, d * gamma_d) / width
        mean_dot = (
            _row_sum(a * gamma_a * e, b * gamma_b * f, c * gamma_c * g, d * gamma_d * h) / width
        )
        a = _norm_backward(a, e, gamma_a, mean_dot, mean_grad, rstd)
        b = _norm_backward(b, f, gamma_b, mean_dot, mean_grad, rstd)
        c = _norm_backward(c, g, gamma_c, mean_dot, mean_grad, rstd)
        d = _norm_backward(d, h, gamma_d, mean_dot, mean_grad, rstd)
        _write_row(grad_summed, base, width, a, b, c, d, quarter)
        if has_dropout:
            a, b, c, d = _dropout(a, b, c, d, row, key, least, scale, quarter)
            _write_row(grad_projected, base, width, a, b, c, d, quarter)
        # Unlike the other sums, this one is not zero past the end of the row.
        grad_bias_a += _zero_past_end(a, 0, width, quarter)
        grad_bias_b += _zero_past_end(b, quarter, width, quarter)
        grad_bias_c += _zero_past_end(c, 2 * quarter, width, quarter)
        grad_bias_d += _zero_past_end(d, 3 * quarter, width, quarter)
    offset = tl.program_id(0) * 3 * width
    _write_row(sums, offset, width, grad_gamma_a, grad_gamma_b, grad_gamma_c, grad_gamma_d, quarter)
    offset += width
    _write_row(sums, offset, width, grad_beta_a, grad_beta_b, grad_beta_c, grad_beta_d, quarter)
    offset += width
    _write_row(sums, offset, width, grad_bias_a, grad_bias_b, grad_bias_c, grad_bias_d, quarter)


@triton.jit
def gelu_backward(
    grad,  # (N, D): of the activations
    pre_activation,  # (N, D)
    grad_pre_activation,  # (N, D): written
    sums,  # (P, D), float32: written; partial sums of ``grad_pre_activation`` over the rows
    num_rows,
    width,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
):
    """Write the gradient of the input of GELU (erf form), and its column sums per program."""
    columns = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    row_offsets = tl.arange(0, block_rows)
    total = tl.zeros([block_rows, block_columns], tl.float32)
    for start in range(tl.program_id(1) * block_rows, num_rows, tl.num_programs(1) * block_rows):
        row_indices = start + row_offsets
        offsets = row_indices.to(tl.int64)[:, None] * width + columns[None, :]
        mask = (row_indices < num_rows)[:, None] & (columns < width)[None, :]
        x = tl.load(pre_activation + offsets, mask=mask, other=0.0).to(tl.float32)
        grad_x = tl.load(grad + offsets, mask=mask, other=0.0).to(tl.float32)
        cdf = 0.5 * (1 + tl.erf(x * 0.7071067811865476))  # sqrt(1 / 2)
        pdf = tl.exp(-0.5 * x * x) * 0.3989422804014327  # sqrt(1 / (2 * pi))
        grad_x = grad_x * (cdf + x * pdf)
        tl.store(
            grad_pre_activation + offsets,
            grad_x.to(grad_pre_activation.dtype.element_ty),
            mask=mask,
        )
        total += grad_x
    tl.store(sums + tl.program_id(1) * width + columns, tl.sum(total, axis=0), mask=columns < width)
