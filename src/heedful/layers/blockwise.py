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
from heedful.layers.attention import attend

_GATHERED = 2**21
"""Bytes of keys that are gathered at once on a CPU: few enough for a cache."""

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
    low = 1 if drawn is None or not drawn.numel() else int(drawn.max()) + 1
    inner: Tensor = _Inner.apply(query, key, value, offset.expand(heads), table, low, size)  # type: ignore[no-untyped-call]
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
    backward pass, with the weights. All that is computed for some blocks goes where it went for
    those before: new memory would have to be cleared by the system first, and be out of the cache.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        offset: Tensor,
        table: Tensor,
        low: int,
        size: int,
    ) -> Tensor:
        ctx.low, ctx.size = low, size
        ctx.save_for_backward(query, key, value, offset, table)
        mixed = torch.empty_like(query[:, :, size:-size])
        room = _room(query, table, size)
        with torch.autocast(query.device.type, enabled=False):
            for item, head in _heads(query):
                queries, keys, values = _by_block(query, key, value, item, head, size)
                into = mixed[item, head].view(queries[1:-1].shape)
                for rows in _parts(query, table, size):
                    read, weights = (x[: rows.stop - rows.start] for x in room)
                    numbers, offsets = table[head, rows], offset[item, head, rows]
                    _weigh(queries[1:-1][rows], _read(keys, numbers, read), offsets, weights)
                    torch.bmm(weights, _read(values, numbers, read), out=into[rows])
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset, table = ctx.saved_tensors
        size, scale = ctx.size, 1 / math.sqrt(query.shape[3])
        grads = [query.new_zeros(query.shape) for _ in range(3)]
        shares = _shares(table, ctx.low, query.dtype)
        room = *_room(query, table, size), *_room(query, table, size)
        for item, head in _heads(query):
            queries, keys, values = _by_block(query, key, value, item, head, size)
            of_queries, of_keys, of_values = (
                total[item, head].view(x.shape)
                for total, x in zip(grads, (queries, keys, values), strict=True)
            )
            grad_blocks = grad[item, head].view(queries[1:-1].shape)
            for rows in _parts(query, table, size):
                read_keys, weights, read, slopes = (x[: rows.stop - rows.start] for x in room)
                numbers, share = table[head, rows], shares[head, :, rows].flatten(1)
                inner, outer = queries[1:-1][rows], grad_blocks[rows]
                _weigh(inner, _read(keys, numbers, read_keys), offset[item, head, rows], weights)
                # With weights W and the gradient g, those of V and of W are W' g and g V'.
                _add_read(of_values, torch.bmm(weights.mT, outer, out=read), share, rows)
                torch.bmm(outer, _read(values, numbers, read).mT, out=slopes)
                _softmax_backward(slopes, weights, -1, slopes.dtype, grad_input=slopes)
                _product(slopes, read_keys, scale, of_queries[1:-1][rows])
                _add_read(of_keys, _product(slopes.mT, inner, scale, read), share, rows)
        return *grads, None, None, None, None


_softmax_backward = torch.ops.aten._softmax_backward_data.out


def _product(left: Tensor, right: Tensor, scale: float, into: Tensor) -> Tensor:
    """Compute batched ``scale * left @ right`` into a tensor."""
    return torch.baddbmm(left.new_empty(1), left, right, beta=0, alpha=scale, out=into)


def _room(query: Tensor, table: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return room for what the blocks computed at once read, and for their weights.

    Returns:
        Shapes (n, C * size, K) and (n, size, C * size).
    """
    num = max(rows.stop - rows.start for rows in _parts(query, table, size))
    read, width = table.shape[2] * size, query.shape[3]
    return query.new_empty(num, read, width), query.new_empty(num, size, read)


def _read(states: Tensor, numbers: Tensor, into: Tensor) -> Tensor:
    """Gather what some inner blocks read, (n, C * size, K), into a tensor.

    Args:
        states: the keys or the values of a head. Shape (N, size * K).
        numbers: of the blocks that they read. Shape (n, C).
        into: the tensor.
    """
    torch.index_select(states, 0, numbers.flatten(), out=into.view(numbers.numel(), -1))
    return into


def _weigh(query: Tensor, key: Tensor, offset: Tensor, into: Tensor) -> None:
    """Compute the weights of some inner blocks, (n, size, C * size), into a tensor.

    Args:
        query: theirs. Shape (n, size, K).
        key: what they read. Shape (n, C * size, K).
        offset: added to the scaled scores. Shape (n, C * size).
        into: the tensor.
    """
    scale = 1 / math.sqrt(query.shape[2])
    torch.baddbmm(offset[:, None], query, key.mT, alpha=scale, out=into)
    torch.softmax(into, -1, out=into)


def _heads(query: Tensor) -> Iterator[tuple[int, int]]:
    """Yield each item and head."""
    yield from itertools.product(range(query.shape[0]), range(query.shape[1]))


def _parts(query: Tensor, table: Tensor, size: int) -> Iterator[slice]:
    """Yield the inner blocks that are computed at once."""
    inner, reads = table.shape[1:]
    gathered = reads * size * query.shape[3] * query.element_size()
    together = max(_GATHERED // gathered, 1) if query.device.type == "cpu" else inner
    for first in range(0, inner, together):
        yield slice(first, min(first + together, inner))


def _by_block(
    query: Tensor, key: Tensor, value: Tensor, item: int, head: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries of a head, (N, size, K), its keys and its values, (N, size * K)."""
    queries = query[item, head].view(-1, size, query.shape[3])
    keys, values = (x[item, head].contiguous().view(len(queries), -1) for x in (key, value))
    return queries, keys, values


def _shares(table: Tensor, low: int, dtype: torch.dtype) -> Tensor:
    """Tell which of the low blocks each inner block reads as its first or a drawn one, by 0 and 1.

    A sum by a product takes a fifth of the time of one block by block.

    Returns:
        Shape (H, low, N - 2, C).
    """
    summed = torch.ones(table.shape[2], dtype=torch.bool, device=table.device)
    summed[1:_FIXED] = False
    numbers = torch.arange(low, device=table.device)[:, None, None]
    return ((table[:, None] == numbers) & summed).to(dtype)


def _add_read(total: Tensor, grad: Tensor, share: Tensor, rows: slice) -> None:
    """Add the gradient of what was read, (n, C * size, K), to that of all blocks, (N, size * K).

    Args:
        total: of all blocks.
        grad: of what was read.
        share: see `_shares`. Shape (low, n * C).
        rows: which inner blocks read it.
    """
    blocks = grad.view(share.shape[1], -1)  # (n * C, size * K)
    total[: len(share)].addmm_(share, blocks)
    parts = blocks.view(len(grad), -1, blocks.shape[1])
    for shift in range(3):
        total[rows.start + shift : rows.stop + shift] += parts[:, 1 + shift]
    total[-1] += parts[:, _FIXED - 1].sum(0)
