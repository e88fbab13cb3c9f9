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
def _read(values, base, columns, width):
    """Return a segment of a row in float32; zeros where the row has ended."""
    return tl.load(values + base + columns, mask=columns < width, other=0.0).to(tl.float32)


@triton.jit
def _write(values, base, columns, width, segment):
    tl.store(values + base + columns, segment.to(values.dtype.element_ty), mask=columns < width)


@triton.jit
def _dropped(values, drawn, least, scale):
    """Return values of which those are zeros that drew a number below the least."""
    return tl.where((drawn.to(tl.uint32) >> 1).to(tl.int32) >= least, values * scale, 0.0)


@triton.jit
def _total(first, second, third, fourth):
    return tl.sum(first + second + third + fourth, axis=0)


@triton.jit
def _squares(values, mean, columns, width):
    """Return the squares of a segment's differences from the mean."""
    differences = tl.where(columns < width, values - mean, 0.0)
    return differences * differences


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
    zeroth = tl.arange(0, quarter)
    first, second, third = zeroth + quarter, zeroth + 2 * quarter, zeroth + 3 * quarter
    a = _read(projected, base, zeroth, width) + _read(bias, 0, zeroth, width)
    b = _read(projected, base, first, width) + _read(bias, 0, first, width)
    c = _read(projected, base, second, width) + _read(bias, 0, second, width)
    d = _read(projected, base, third, width) + _read(bias, 0, third, width)
    if drops:
        drawn = tl.randint4x(key, row * quarter + zeroth)
        a = _dropped(a, drawn[0], least, scale)
        b = _dropped(b, drawn[1], least, scale)
        c = _dropped(c, drawn[2], least, scale)
        d = _dropped(d, drawn[3], least, scale)
    # What is normalised is rounded as what is kept of it.
    narrow = hidden.dtype.element_ty
    a = (a + _read(hidden, base, zeroth, width)).to(narrow).to(tl.float32)
    b = (b + _read(hidden, base, first, width)).to(narrow).to(tl.float32)
    c = (c + _read(hidden, base, second, width)).to(narrow).to(tl.float32)
    d = (d + _read(hidden, base, third, width)).to(narrow).to(tl.float32)
    mean = _total(a, b, c, d) / width
    variance = (
        _total(
            _squares(a, mean, zeroth, width),
            _squares(b, mean, first, width),
            _squares(c, mean, second, width),
            _squares(d, mean, third, width),
        )
        / width
    )
    sharpness = 1 / tl.sqrt(variance + eps)
    if keeps:
        _write(added, base, zeroth, width, a)
        _write(added, base, first, width, b)
        _write(added, base, second, width, c)
        _write(added, base, third, width, d)
        tl.store(statistics + row, mean)
        tl.store(statistics + rows + row, sharpness)
    a = (a - mean) * sharpness * _read(gain, 0, zeroth, width) + _read(offset, 0, zeroth, width)
    b = (b - mean) * sharpness * _read(gain, 0, first, width) + _read(offset, 0, first, width)
    c = (c - mean) * sharpness * _read(gain, 0, second, width) + _read(offset, 0, second, width)
    d = (d - mean) * sharpness * _read(gain, 0, third, width) + _read(offset, 0, third, width)
    _write(ended, base, zeroth, width, a)
    _write(ended, base, first, width, b)
    _write(ended, base, second, width, c)
    _write(ended, base, third, width, d)


@triton.jit
def _normalised_back(grad, normalised, gain, along, mean, sharpness):
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
    zeroth = tl.arange(0, quarter)
    first, second, third = zeroth + quarter, zeroth + 2 * quarter, zeroth + 3 * quarter
    gain_a, gain_b = _read(gain, 0, zeroth, width), _read(gain, 0, first, width)
    gain_c, gain_d = _read(gain, 0, second, width), _read(gain, 0, third, width)
    nothing = tl.zeros([quarter], tl.float32)
    of_gain_a, of_gain_b, of_gain_c, of_gain_d = nothing, nothing, nothing, nothing
    of_offset_a, of_offset_b, of_offset_c, of_offset_d = nothing, nothing, nothing, nothing
    of_bias_a, of_bias_b, of_bias_c, of_bias_d = nothing, nothing, nothing, nothing
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row * tl.cast(width, tl.int64)
        mean, sharpness = tl.load(statistics + row), tl.load(statistics + rows + row)
        a, b = _read(grad, base, zeroth, width), _read(grad, base, first, width)
        c, d = _read(grad, base, second, width), _read(grad, base, third, width)
        normal_a = (_read(added, base, zeroth, width) - mean) * sharpness
        normal_b = (_read(added, base, first, width) - mean) * sharpness
        normal_c = (_read(added, base, second, width) - mean) * sharpness
        normal_d = (_read(added, base, third, width) - mean) * sharpness
        of_gain_a += a * normal_a
        of_gain_b += b * normal_b
        of_gain_c += c * normal_c
        of_gain_d += d * normal_d
        of_offset_a += a
        of_offset_b += b
        of_offset_c += c
        of_offset_d += d
        scaled = _total(a * gain_a, b * gain_b, c * gain_c, d * gain_d) / width
        along = (
            _total(
                a * gain_a * normal_a,
                b * gain_b * normal_b,
                c * gain_c * normal_c,
                d * gain_d * normal_d,
            )
            / width
        )
        a = _normalised_back(a, normal_a, gain_a, along, scaled, sharpness)
        b = _normalised_back(b, normal_b, gain_b, along, scaled, sharpness)
        c = _normalised_back(c, normal_c, gain_c, along, scaled, sharpness)
        d = _normalised_back(d, normal_d, gain_d, along, scaled, sharpness)
        _write(grad_added, base, zeroth, width, a)
        _write(grad_added, base, first, width, b)
        _write(grad_added, base, second, width, c)
        _write(grad_added, base, third, width, d)
        if drops:
            drawn = tl.randint4x(key, row * quarter + zeroth)
            a = _dropped(a, drawn[0], least, scale)
            b = _dropped(b, drawn[1], least, scale)
            c = _dropped(c, drawn[2], least, scale)
            d = _dropped(d, drawn[3], least, scale)
            _write(grad_projected, base, zeroth, width, a)
            _write(grad_projected, base, first, width, b)
            _write(grad_projected, base, second, width, c)
            _write(grad_projected, base, third, width, d)
        # Past a row's end all of it is zeros but this.
        of_bias_a += tl.where(zeroth < width, a, 0.0)
        of_bias_b += tl.where(first < width, b, 0.0)
        of_bias_c += tl.where(second < width, c, 0.0)
        of_bias_d += tl.where(third < width, d, 0.0)
    place = tl.program_id(0) * 3 * width
    _write(sums, place, zeroth, width, of_gain_a)
    _write(sums, place, first, width, of_gain_b)
    _write(sums, place, second, width, of_gain_c)
    _write(sums, place, third, width, of_gain_d)
    place += width
    _write(sums, place, zeroth, width, of_offset_a)
    _write(sums, place, first, width, of_offset_b)
    _write(sums, place, second, width, of_offset_c)
    _write(sums, place, third, width, of_offset_d)
    place += width
    _write(sums, place, zeroth, width, of_bias_a)
    _write(sums, place, first, width, of_bias_b)
    _write(sums, place, second, width, of_bias_c)
    _write(sums, place, third, width, of_bias_d)


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
    place = tl.program_id(1) * width + columns
    tl.store(sums + place, tl.sum(added, axis=0), mask=columns < width)
