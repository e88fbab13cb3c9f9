"""Attention of a text by blocks of tokens, some blocks at a time; ``blocksparse.py`` says which.

The first and the last block read all of the text. Each of those between, the inner ones, reads the
first, its neighbours and itself, the last, and those that were drawn.

Shapes: G texts of one number of blocks N, H heads, S = N * size tokens, K head width, R drawn
blocks, C = 5 + R blocks that an inner block reads, n inner blocks that are computed at once.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.layers.attention import attend, gradients_of, mix, weigh

_TOGETHER = 512
"""Tokens whose attention is computed at once on a CPU: few enough for a core's cache."""


def attend_by_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    size: int,
    first: int = 1,
    mask: Tensor | None = None,
    drawn: Tensor | None = None,
) -> Tensor:
    """Mix values of texts of N blocks, in time that grows as N does. Shape (G, H, S, K).

    Args:
        query: shape (G, H, S, K), S = N * ``size``.
        key: the same.
        value: the same.
        size: tokens of a block.
        first: how often the inner blocks read the first block.
        mask: bool, True for a token, False for padding. Shape (G, 1, 1, S); None if there is no
            padding.
        drawn: the blocks that each inner block reads besides, if any. Shape (H, N - 2, R).
    """
    both = torch.cat([query[:, :, :size], query[:, :, -size:]], 2)
    ends = attend(both, key, value, mask=mask).values
    if drawn is None:
        drawn = torch.empty(query.shape[1], query.shape[2] // size - 2, 0, dtype=torch.int64)
    drawn = drawn.to(query.device)
    reads = _reads(mask, query, size, drawn)  # (1 or G, 1 or H, N - 2, C * size)
    reach = reads.any(-1, keepdim=True)
    offset = torch.zeros(reads.shape, dtype=query.dtype, device=query.device)
    offset[..., :size] = math.log(first)
    offset = offset.masked_fill_(~reads & reach, -math.inf)
    heads = (*query.shape[:2], -1, -1)
    inner: Tensor = _Inner.apply(query, key, value, offset.expand(heads), drawn, size)  # type: ignore[no-untyped-call]
    if mask is not None:  # a query that may attend to nothing gets zeros
        inner = (inner.view(*inner.shape[:2], -1, size, inner.shape[3]) * reach[..., None]).flatten(
            2, 3
        )
    return torch.cat([ends[:, :, :size], inner, ends[:, :, size:]], 2)


def _reads(mask: Tensor | None, query: Tensor, size: int, drawn: Tensor) -> Tensor:
    """Tell which tokens the inner blocks read, each once. Shape (1 or G, 1 or H, N - 2, C * size).

    A neighbour that is an end was read before.
    """
    inner, count = query.shape[2] // size - 2, 5 + drawn.shape[2]
    once = torch.ones(inner, count, dtype=torch.bool, device=query.device)
    once[0, 1] = once[-1, 3] = False
    reads = once.repeat_interleave(size, 1)[None, None]
    if mask is None:
        return reads
    rows = slice(0, inner)
    each = drawn if drawn.shape[2] else drawn[:1]  # (1 or H, N - 2, R)
    real = [torch.stack([_read(item.T, size, rows, own) for own in each]) for item in mask[:, 0]]
    return reads & torch.stack(real).squeeze(-1)


class _Inner(torch.autograd.Function):
    """Attention of the inner blocks, some of one head at a time, keeping nothing but its inputs.

    What is read is gathered for as many blocks as fit into a core's cache, and again in the
    backward pass, with the weights.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        offset: Tensor,
        drawn: Tensor,
        size: int,
    ) -> Tensor:
        ctx.size = size
        ctx.save_for_backward(query, key, value, offset, drawn)
        mixed = torch.empty_like(query[:, :, size:-size])
        for item, head, rows in _parts(query, size):
            inputs = _inputs(query, key, value, drawn, size, (item, head, rows))
            weights, _, _ = weigh(*inputs[:2], offset[item, head, rows, None], 0.0)
            place = slice(rows.start * size, rows.stop * size)
            mixed[item, head, place] = mix(weights, None, 1.0, inputs[2]).flatten(0, 1)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset, drawn = ctx.saved_tensors
        size = ctx.size
        grads = [
            torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (query, key, value)
        ]
        for item, head, rows in _parts(query, size):
            inputs = _inputs(query, key, value, drawn, size, (item, head, rows))
            weights, _, _ = weigh(*inputs[:2], offset[item, head, rows, None], 0.0)
            place = slice(rows.start * size, rows.stop * size)
            own = grad[item, head, place].view(-1, size, grad.shape[3])
            of_query, *of_read, _ = gradients_of(*inputs, weights, None, 1.0, own, None)
            place = slice((rows.start + 1) * size, (rows.stop + 1) * size)
            grads[0][item, head, place] = of_query.flatten(0, 1)
            for total, part in zip(grads[1:], of_read, strict=True):
                _add_read(total[item, head], part, size, rows, drawn[head])
        return *grads, None, None, None


_Part = tuple[int, int, slice]
"""An item, a head, and some of the inner blocks."""


def _parts(query: Tensor, size: int) -> Iterator[_Part]:
    """Yield what is computed at once."""
    inner = query.shape[2] // size - 2
    together = _TOGETHER // size if query.device.type == "cpu" else inner
    for item in range(query.shape[0]):
        for head in range(query.shape[1]):
            for first in range(0, inner, together):
                yield item, head, slice(first, min(first + together, inner))


def _inputs(
    query: Tensor, key: Tensor, value: Tensor, drawn: Tensor, size: int, part: _Part
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, (n, size, K), and the keys and values that they read, (n, C * size, K)."""
    item, head, rows = part
    place = slice((rows.start + 1) * size, (rows.stop + 1) * size)
    asking = query[item, head, place].view(-1, size, query.shape[3])
    keys, values = (_read(states[item, head], size, rows, drawn[head]) for states in (key, value))
    return asking, keys, values


def _read(states: Tensor, size: int, rows: slice, drawn: Tensor) -> Tensor:
    """Return what inner blocks read: the first block, the near ones, the last, and those drawn.

    Args:
        states: of one head. Shape (S, K).
        size: tokens of a block.
        rows: n of the inner blocks.
        drawn: what each inner block reads besides. Shape (N - 2, R).

    Returns:
        Shape (n, C * size, K).
    """
    blocks = states.view(-1, size, states.shape[1])  # (N, size, K)
    count = rows.stop - rows.start
    near = [blocks[rows.start + shift : rows.stop + shift] for shift in range(3)]
    parts = [blocks[:1].expand(count, -1, -1), *near, blocks[-1:].expand(count, -1, -1)]
    if drawn.shape[1]:
        parts.append(blocks[drawn[rows].flatten()].view(count, -1, states.shape[1]))
    return torch.cat(parts, 1)


def _add_read(total: Tensor, grad: Tensor, size: int, rows: slice, drawn: Tensor) -> None:
    """Add the gradient of what was read, (n, C * size, K), to that of all tokens, (S, K)."""
    blocks = total.view(-1, size, total.shape[1])
    parts = grad.view(len(grad), -1, size, total.shape[1]).unbind(1)  # C of (n, size, K)
    blocks[0] += parts[0].sum(0)
    for shift in range(3):
        blocks[rows.start + shift : rows.stop + shift] += parts[1 + shift]
    blocks[-1] += parts[4].sum(0)
    for number, part in enumerate(parts[5:]):
        blocks.index_add_(0, drawn[rows, number], part)
