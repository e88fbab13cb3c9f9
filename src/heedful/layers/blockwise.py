"""Attention of a text by blocks of tokens, some blocks at a time; ``blocksparse.py`` says which.

The first and the last block read all of the text. Each of those between, the inner ones, reads the
first, its neighbours and itself, the last, and those that were drawn.

Shapes: G texts of one number of blocks N, H heads, S = N * size tokens, K head width, R drawn
blocks, C = 5 + R blocks that an inner block reads, n inner blocks that are computed at once.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.host import send
from heedful.layers.attention import attend, gradients_of, mix, weigh

_TOGETHER = 512
"""Tokens whose attention is computed at once on a CPU: few enough for a core's cache."""

_FIXED = 5
"""Blocks that an inner block reads which are not drawn."""


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
    table = _table(drawn, query.shape[1], query.shape[2] // size, query.device)
    reads = _reads(mask, table, size)  # (1 or G, 1 or H, N - 2, C * size)
    reach = reads.any(-1, keepdim=True)
    offset = torch.zeros(reads.shape, dtype=query.dtype, device=query.device)
    offset[..., :size] = math.log(first)
    offset = offset.masked_fill_(~reads & reach, -math.inf)
    heads = (*query.shape[:2], -1, -1)
    inner: Tensor = _Inner.apply(query, key, value, offset.expand(heads), table, size)  # type: ignore[no-untyped-call]
    if mask is not None:  # a query that may attend to nothing gets zeros
        inner = (inner.view(*inner.shape[:2], -1, size, inner.shape[3]) * reach[..., None]).flatten(
            2, 3
        )
    return torch.cat([ends[:, :, :size], inner, ends[:, :, size:]], 2)


def _reads(mask: Tensor | None, table: Tensor, size: int) -> Tensor:
    """Tell which tokens the inner blocks read, each once. Shape (1 or G, 1 or H, N - 2, C * size).

    A neighbour that is an end was read before.

    Args:
        mask: see ``attend_by_blocks``.
        table: see ``_table``.
        size: tokens of a block.
    """
    once = torch.ones(table.shape[1:], dtype=torch.bool, device=table.device)
    once[0, 1] = once[-1, 3] = False
    reads = once.repeat_interleave(size, 1)[None, None]
    if mask is None:
        return reads
    heads = table if table.shape[2] > _FIXED else table[:1]  # (1 or H, N - 2, C)
    by_block = mask.reshape(len(mask), -1, size)  # (G, N, size)
    real: Tensor = reads & by_block[:, heads].flatten(3)
    return real


def _table(drawn: Tensor | None, heads: int, blocks: int, device: torch.device) -> Tensor:
    """Return the numbers of the blocks that each inner block of each head reads.

    These are the first, the one before it, itself, the one behind it, the last, and those drawn.

    Returns:
        Shape (H, N - 2, C).
    """
    inner = torch.arange(1, blocks - 1)
    first, last = torch.zeros_like(inner), torch.full_like(inner, blocks - 1)
    fixed = torch.stack([first, inner - 1, inner, inner + 1, last], 1).expand(heads, -1, -1)
    return send(fixed if drawn is None else torch.cat([fixed, drawn], 2), device)


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
        table: Tensor,
        size: int,
    ) -> Tensor:
        ctx.size = size
        ctx.save_for_backward(query, key, value, offset, table)
        mixed = torch.empty_like(query[:, :, size:-size])
        for item, head in _heads(query):
            states = _by_block(query, key, value, item, head, size)
            into = mixed[item, head].view(-1, size, query.shape[3])
            for rows in _parts(query, size):
                inputs = _inputs(*states, table[head, rows], rows, size)
                weights, _, _ = weigh(*inputs[:2], offset[item, head, rows, None], 0.0)
                into[rows] = mix(weights, None, 1.0, inputs[2])
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset, table = ctx.saved_tensors
        size = ctx.size
        grads = [query.new_zeros(query.shape) for _ in range(3)]
        for item, head in _heads(query):
            states = _by_block(query, key, value, item, head, size)
            totals = [total[item, head].view(len(states[0]), -1) for total in grads]
            grad_blocks = grad[item, head].view(-1, size, query.shape[3])
            for rows in _parts(query, size):
                inputs = _inputs(*states, table[head, rows], rows, size)
                weights, _, _ = weigh(*inputs[:2], offset[item, head, rows, None], 0.0)
                of_query, *of_read, _ = gradients_of(
                    *inputs, weights, None, 1.0, grad_blocks[rows], None
                )
                totals[0][1:-1][rows] = of_query.flatten(1)
                for total, part in zip(totals[1:], of_read, strict=True):
                    _add_read(total, part, table[head, rows], rows)
        return *grads, None, None, None


def _heads(query: Tensor) -> Iterator[tuple[int, int]]:
    """Yield each item and head."""
    yield from itertools.product(range(query.shape[0]), range(query.shape[1]))


def _parts(query: Tensor, size: int) -> Iterator[slice]:
    """Yield the inner blocks that are computed at once."""
    inner = query.shape[2] // size - 2
    together = max(_TOGETHER // size, 1) if query.device.type == "cpu" else inner
    for first in range(0, inner, together):
        yield slice(first, min(first + together, inner))


def _by_block(
    query: Tensor, key: Tensor, value: Tensor, item: int, head: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries of a head, (N, size, K), its keys and its values, (N, size * K)."""
    queries = query[item, head].view(-1, size, query.shape[3])
    keys, values = (x[item, head].contiguous().view(len(queries), -1) for x in (key, value))
    return queries, keys, values


def _inputs(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor, rows: slice, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, (n, size, K), and the keys and values that they read, (n, C * size, K)."""
    inner, numbers = query[1:-1][rows], table.flatten()
    keys, values = (
        states.index_select(0, numbers).view(len(inner), -1, query.shape[2])
        for states in (key, value)
    )
    return inner, keys, values


def _add_read(total: Tensor, grad: Tensor, table: Tensor, rows: slice) -> None:
    """Add the gradient of what was read, (n, C * size, K), to that of all blocks, (N, size * K)."""
    parts = grad.view(len(grad), table.shape[1], -1).unbind(1)  # C of (n, size * K)
    total[0] += parts[0].sum(0)
    for shift in range(3):
        total[rows.start + shift : rows.stop + shift] += parts[1 + shift]
    total[-1] += parts[4].sum(0)
    for number, part in enumerate(parts[_FIXED:], start=_FIXED):
        total.index_add_(0, table[:, number], part)
