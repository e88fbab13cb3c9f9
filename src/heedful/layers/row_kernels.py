"""Triton's kernels for what is done to rows between two products; ``rows.py`` calls them.

Each program holds a row, or the columns of some rows, in registers. A row is read in four segments,
as Triton's generator gives four numbers at once: what is drawn for a row depends on the key of the
draw and the row's number alone, so that the backward pass draws it again.

Shapes: N rows, D width of a row, Q width of a segment: a power of 2, and 4 * Q is at least D; P
programs.
"""

import triton
import triton.language as tl


@triton.jit
def _read(values, base, start, width, quarter: tl.constexpr):
    """Return a segment of a row in float32; zeros where the row has ended."""
    columns = start + tl.arange(0, quarter)
    return tl.load(values + base + columns, mask=columns < width, other=0.0).to(tl.float32)


@triton.jit
def _read_row(values, base, width, quarter: tl.constexpr):
    """Return the four segments."""
    return (
        _read(values, base, 0, width, quarter),
        _read(values, base, quarter, width, quarter),
        _read(values, base, 2 * quarter, width, quarter),
        _read(values, base, 3 * quarter, width, quarter),
    )


@triton.jit
def _write(values, base, start, width, segment, quarter: tl.constexpr):
    columns = start + tl.arange(0, quarter)
    tl.store(values + base + columns, segment.to(values.dtype.element_ty), mask=columns < width)


@triton.jit
def _write_row(values, base, width, a, b, c, d, quarter: tl.constexpr):
    _write(values, base, 0, width, a, quarter)
    _write(values, base, quarter, width, b, quarter)
    _write(values, base, 2 * quarter, width, c, quarter)
    _write(values, base, 3 * quarter, width, d, quarter)


@triton.jit
def _kept(values, drawn, least, scale):
    """Return values of which those are zeros that drew a number below the least."""
    return tl.where((drawn.to(tl.uint32) >> 1).to(tl.int32) >= least, values * scale, 0.0)


@triton.jit
def _dropped(a, b, c, d, row, key, least, scale, quarter: tl.constexpr):
    """Return a row of which some are dropped: the same ones for the same key."""
    drawn = tl.randint4x(key, row * quarter + tl.arange(0, quarter))
    return (
        _kept(a, drawn[0], least, scale),
        _kept(b, drawn[1], least, scale),
        _kept(c, drawn[2], least, scale),
        _kept(d, drawn[3], least, scale),
    )


@triton.jit
def _total(a, b, c, d):
    return tl.sum(a + b + c + d, axis=0)


@triton.jit
def _squares(values, mean, start, width, quarter: tl.constexpr):
    """Return the squares of a segment's differences from the mean."""
    inside = start + tl.arange(0, quarter) < width
    differences = tl.where(inside, values - mean, 0.0)
    return differences * differences


@triton.jit
def _within(values, start, width, quarter: tl.constexpr):
    """Return a segment with zeros where the row has ended."""
    return tl.where(start + tl.arange(0, quarter) < width, values, 0.0)


@triton.jit(do_not_specialize=["key", "least"])
def end_forward(
    projected,  # (N, D), without its bias
    bias,  # (D,)
    hidden,  # (N, D)
    gain,  # (D,)
    offset,  # (D,)
    ended,  # (N, D): written
    added,  # (N, D): written, if kept
    statistics,  # (2, N), float32: written, if kept
    rows,
    width,
    eps,
    key,
    least,
    scale,
    drops: tl.constexpr,
    keeps: tl.constexpr,
    quarter: tl.constexpr,
):
    """Write ``LayerNorm(dropout(projected + bias) + hidden)``."""
    row = tl.program_id(0)
    base = row * tl.cast(width, tl.int64)
    a, b, c, d = _read_row(projected, base, width, quarter)
    bias_a, bias_b, bias_c, bias_d = _read_row(bias, 0, width, quarter)
    a, b, c, d = a + bias_a, b + bias_b, c + bias_c, d + bias_d
    if drops:
        a, b, c, d = _dropped(a, b, c, d, row, key, least, scale, quarter)
    # What is normalised is rounded as what is kept of it.
    narrow = hidden.dtype.element_ty
    more_a, more_b, more_c, more_d = _read_row(hidden, base, width, quarter)
    a, b = (a + more_a).to(narrow).to(tl.float32), (b + more_b).to(narrow).to(tl.float32)
    c, d = (c + more_c).to(narrow).to(tl.float32), (d + more_d).to(narrow).to(tl.float32)
    mean = _total(a, b, c, d) / width
    squares = _total(
        _squares(a, mean, 0, width, quarter),
        _squares(b, mean, quarter, width, quarter),
        _squares(c, mean, 2 * quarter, width, quarter),
        _squares(d, mean, 3 * quarter, width, quarter),
    )
    sharpness = 1 / tl.sqrt(squares / width + eps)
    if keeps:
        _write_row(added, base, width, a, b, c, d, quarter)
        tl.store(statistics + row, mean)
        tl.store(statistics + rows + row, sharpness)
    gain_a, gain_b, gain_c, gain_d = _read_row(gain, 0, width, quarter)
    offset_a, offset_b, offset_c, offset_d = _read_row(offset, 0, width, quarter)
    a = (a - mean) * sharpness * gain_a + offset_a
    b = (b - mean) * sharpness * gain_b + offset_b
    c = (c - mean) * sharpness * gain_c + offset_c
    d = (d - mean) * sharpness * gain_d + offset_d
    _write_row(ended, base, width, a, b, c, d, quarter)


@triton.jit
def _back(grad, normalised, gain, along, mean, sharpness):
    """Return the gradient of a segment before it was normalised."""
    return (grad * gain - normalised * along - mean) * sharpness


@triton.jit(do_not_specialize=["key", "least"])
def end_backward(
    grad,  # (N, D): of what ended
    added,  # (N, D)
    statistics,  # (2, N), float32
    gain,  # (D,)
    grad_added,  # (N, D): written
    grad_projected,  # (N, D): written, if it is another
    sums,  # (P, 3, D), float32: written; of the gradients of gain, offset and bias
    rows,
    width,
    key,
    least,
    scale,
    drops: tl.constexpr,
    quarter: tl.constexpr,
):
    """Write the gradients of what was added up; each program adds up those of the vectors."""
    gain_a, gain_b, gain_c, gain_d = _read_row(gain, 0, width, quarter)
    none = tl.zeros([quarter], tl.float32)
    of_gain_a, of_gain_b, of_gain_c, of_gain_d = none, none, none, none
    of_offset_a, of_offset_b, of_offset_c, of_offset_d = none, none, none, none
    of_bias_a, of_bias_b, of_bias_c, of_bias_d = none, none, none, none
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row * tl.cast(width, tl.int64)
        mean, sharpness = tl.load(statistics + row), tl.load(statistics + rows + row)
        a, b, c, d = _read_row(grad, base, width, quarter)
        e, f, g, h = _read_row(added, base, width, quarter)
        e, f, g, h = e - mean, f - mean, g - mean, h - mean
        e, f, g, h = e * sharpness, f * sharpness, g * sharpness, h * sharpness  # normalised
        of_gain_a, of_gain_b = of_gain_a + a * e, of_gain_b + b * f
        of_gain_c, of_gain_d = of_gain_c + c * g, of_gain_d + d * h
        of_offset_a, of_offset_b = of_offset_a + a, of_offset_b + b
        of_offset_c, of_offset_d = of_offset_c + c, of_offset_d + d
        scaled = _total(a * gain_a, b * gain_b, c * gain_c, d * gain_d) / width
        along = _total(a * gain_a * e, b * gain_b * f, c * gain_c * g, d * gain_d * h) / width
        a = _back(a, e, gain_a, along, scaled, sharpness)
        b = _back(b, f, gain_b, along, scaled, sharpness)
        c = _back(c, g, gain_c, along, scaled, sharpness)
        d = _back(d, h, gain_d, along, scaled, sharpness)
        _write_row(grad_added, base, width, a, b, c, d, quarter)
        if drops:
            a, b, c, d = _dropped(a, b, c, d, row, key, least, scale, quarter)
            _write_row(grad_projected, base, width, a, b, c, d, quarter)
        # Past a row's end all of it is zeros but this.
        of_bias_a += _within(a, 0, width, quarter)
        of_bias_b += _within(b, quarter, width, quarter)
        of_bias_c += _within(c, 2 * quarter, width, quarter)
        of_bias_d += _within(d, 3 * quarter, width, quarter)
    at = tl.program_id(0) * 3 * width
    _write_row(sums, at, width, of_gain_a, of_gain_b, of_gain_c, of_gain_d, quarter)
    at += width
    _write_row(sums, at, width, of_offset_a, of_offset_b, of_offset_c, of_offset_d, quarter)
    at += width
    _write_row(sums, at, width, of_bias_a, of_bias_b, of_bias_c, of_bias_d, quarter)


@triton.jit
def gelu_backward(
    grad,  # (N, D): of what was activated
    widened,  # (N, D): what it was before
    grad_widened,  # (N, D): written
    sums,  # (P, D), float32: written; of that gradient
    rows,
    width,
    height: tl.constexpr,
    breadth: tl.constexpr,
):
    """Write the gradient before GELU by the error function; each program adds it up."""
    columns = tl.program_id(0) * breadth + tl.arange(0, breadth)
    at_once = tl.arange(0, height)
    added = tl.zeros([height, breadth], tl.float32)
    for start in range(tl.program_id(1) * height, rows, tl.num_programs(1) * height):
        numbers = start + at_once
        places = numbers.to(tl.int64)[:, None] * width + columns[None, :]
        inside = (numbers < rows)[:, None] & (columns < width)[None, :]
        x = tl.load(widened + places, mask=inside, other=0.0).to(tl.float32)
        back = tl.load(grad + places, mask=inside, other=0.0).to(tl.float32)
        share = 0.5 * (1 + tl.erf(x * 0.7071067811865476))  # sqrt(1 / 2)
        density = tl.exp(-0.5 * x * x) * 0.3989422804014327  # sqrt(1 / (2 * pi))
        back = back * (share + x * density)
        tl.store(grad_widened + places, back.to(grad_widened.dtype.element_ty), mask=inside)
        added += back
    tl.store(sums + tl.program_id(1) * width + columns, tl.sum(added, axis=0), mask=columns < width)
