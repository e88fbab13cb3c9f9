"""Kernel of block-sparse attention; ``blocksparse.py`` defines the pattern.

The first and the last block attend to the whole text. The blocks in between are the inner blocks.
An inner block attends to the first block, its neighbours and itself, the last block, and random
blocks.

Shapes: G texts with the same number of blocks N, H heads, S = N * size tokens, K head width, R
random blocks, C = 5 + R blocks that an inner block attends to, n inner blocks per chunk.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from heedful.derivatives import once_differentiable
from heedful.device_transfer import copy_to_device
from heedful.layers.attention import attend

_GATHERED = 2**21
"""Bytes of keys gathered per chunk on a CPU; a chunk fits into the cache."""

_FIXED = 5
"""Number of non-random blocks that an inner block attends to."""


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
    """Compute block-sparse attention in time linear in N. Shape (G, H, S, K).

    Args:
        query: shape (G, H, S, K), S = N * ``block_size``.
        key: shape (G, H, S, K).
        value: shape (G, H, S, K).
        size: tokens per block.
        first: how often the inner blocks count the first block.
        mask: bool, True for a token, False for padding. Shape (G, 1, 1, S); None without padding.
        drawn: the random blocks of each inner block, if any. Shape (H, N - 2, R).
    """
    end_queries = torch.cat([query[:, :, :size], query[:, :, -size:]], 2)
    ends = attend(end_queries, key, value, mask=mask).values
    table = _table(drawn, query.shape[1], query.shape[2] // size, query.device)
    allowed = _key_mask(mask, table, size)  # (1 or G, 1 or H, N - 2, C * size)
    has_keys = allowed.any(-1, keepdim=True)
    offset = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    offset[..., :size] = math.log(first)
    offset = offset.masked_fill_(~allowed & has_keys, -math.inf)
    heads = (*query.shape[:2], -1, -1)
    low = 1 if drawn is None or not drawn.numel() else int(drawn.max()) + 1
    inner: Tensor = _Inner.apply(query, key, value, offset.expand(heads), table, low, size)  # type: ignore[no-untyped-call]
    if mask is not None:  # a query without any allowed key gets zeros
        inner = (
            inner.view(*inner.shape[:2], -1, size, inner.shape[3]) * has_keys[..., None]
        ).flatten(2, 3)
    return torch.cat([ends[:, :, :size], inner, ends[:, :, size:]], 2)


def _key_mask(mask: Tensor | None, table: Tensor, size: int) -> Tensor:
    """Return the key mask of the inner blocks. Shape (1 or G, 1 or H, N - 2, C * size).

    A neighbour that is the first or last block is masked, because it is in the list already.

    Args:
        mask: see ``attend_by_blocks``.
        table: see ``_table``.
        size: tokens per block.
    """
    distinct = torch.ones(table.shape[1:], dtype=torch.bool, device=table.device)
    distinct[0, 1] = distinct[-1, 3] = False
    allowed = distinct.repeat_interleave(size, 1)[None, None]
    if mask is None:
        return allowed
    heads = table if table.shape[2] > _FIXED else table[:1]  # (1 or H, N - 2, C)
    by_block = mask.reshape(len(mask), -1, size)  # (G, N, size)
    key_mask: Tensor = allowed & by_block[:, heads].flatten(3)
    return key_mask


def _table(drawn: Tensor | None, heads: int, blocks: int, device: torch.device) -> Tensor:
    """Return the indices of the blocks that each inner block of each head attends to.

    These are the first block, the previous one, itself, the next one, the last, and random blocks.

    Returns:
        Shape (H, N - 2, C).
    """
    inner = torch.arange(1, blocks - 1)
    first, last = torch.zeros_like(inner), torch.full_like(inner, blocks - 1)
    fixed = torch.stack([first, inner - 1, inner, inner + 1, last], 1).expand(heads, -1, -1)
    return copy_to_device(fixed if drawn is None else torch.cat([fixed, drawn], 2), device)


class _Inner(torch.autograd.Function):
    """Attention of the inner blocks, in chunks of one head. Saves only its inputs for backward.

    A chunk's keys and values are gathered for as many blocks as fit into a core's cache. The
    backward pass gathers them again, and recomputes the weights. All chunks share one buffer: the
    system would have to clear new memory first, and it would not be in the cache.
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
        buffers = _buffers(query, table, size)
        with torch.autocast(query.device.type, enabled=False):
            for item, head in _heads(query):
                queries, keys, values = _by_block(query, key, value, item, head, size)
                into = mixed[item, head].view(queries[1:-1].shape)
                for rows in _chunks(query, table, size):
                    gathered, weights = (x[: rows.stop - rows.start] for x in buffers)
                    indices, offsets = table[head, rows], offset[item, head, rows]
                    _write_weights(
                        queries[1:-1][rows], _gather(keys, indices, gathered), offsets, weights
                    )
                    torch.bmm(weights, _gather(values, indices, gathered), out=into[rows])
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset, table = ctx.saved_tensors
        size, scale = ctx.size, 1 / math.sqrt(query.shape[3])
        grads = [query.new_zeros(query.shape) for _ in range(3)]
        shares = _shares(table, ctx.low, query.dtype)
        buffers = *_buffers(query, table, size), *_buffers(query, table, size)
        for item, head in _heads(query):
            queries, keys, values = _by_block(query, key, value, item, head, size)
            grad_queries, grad_keys, grad_values = (
                total[item, head].view(x.shape)
                for total, x in zip(grads, (queries, keys, values), strict=True)
            )
            grad_blocks = grad[item, head].view(queries[1:-1].shape)
            for rows in _chunks(query, table, size):
                gathered_keys, weights, gathered, grad_scores = (
                    x[: rows.stop - rows.start] for x in buffers
                )
                indices, share = table[head, rows], shares[head, :, rows].flatten(1)
                query_chunk, grad_chunk = queries[1:-1][rows], grad_blocks[rows]
                _write_weights(
                    query_chunk,
                    _gather(keys, indices, gathered_keys),
                    offset[item, head, rows],
                    weights,
                )
                # With weights W and output gradient g, the gradients of V and W are W' g and g V'.
                _add_gathered(
                    grad_values, torch.bmm(weights.mT, grad_chunk, out=gathered), share, rows
                )
                torch.bmm(grad_chunk, _gather(values, indices, gathered).mT, out=grad_scores)
                _softmax_backward(
                    grad_scores, weights, -1, grad_scores.dtype, grad_input=grad_scores
                )
                _product(grad_scores, gathered_keys, scale, grad_queries[1:-1][rows])
                _add_gathered(
                    grad_keys, _product(grad_scores.mT, query_chunk, scale, gathered), share, rows
                )
        return *grads, None, None, None, None


_softmax_backward = torch.ops.aten._softmax_backward_data.out


def _product(left: Tensor, right: Tensor, scale: float, into: Tensor) -> Tensor:
    """Write the batched ``scale * left @ right`` into a tensor."""
    return torch.baddbmm(left.new_empty(1), left, right, beta=0, alpha=scale, out=into)


def _buffers(query: Tensor, table: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return buffers for the gathered keys or values of a chunk, and for its weights.

    Returns:
        Shapes (n, C * size, K) and (n, size, C * size).
    """
    num_blocks = max(rows.stop - rows.start for rows in _chunks(query, table, size))
    num_keys, width = table.shape[2] * size, query.shape[3]
    return query.new_empty(num_blocks, num_keys, width), query.new_empty(num_blocks, size, num_keys)


def _gather(states: Tensor, indices: Tensor, into: Tensor) -> Tensor:
    """Gather the keys or values of some inner blocks, (n, C * size, K), into a tensor.

    Args:
        states: the keys or the values of a head. Shape (N, size * K).
        indices: indices of the blocks to gather. Shape (n, C).
        into: the tensor.
    """
    torch.index_select(states, 0, indices.flatten(), out=into.view(indices.numel(), -1))
    return into


def _write_weights(query: Tensor, key: Tensor, offset: Tensor, into: Tensor) -> None:
    """Write the attention weights of some inner blocks, (n, size, C * size), into a tensor.

    Args:
        query: their queries. Shape (n, size, K).
        key: the gathered keys. Shape (n, C * size, K).
        offset: added to the scaled scores. Shape (n, C * size).
        into: the tensor.
    """
    scale = 1 / math.sqrt(query.shape[2])
    torch.baddbmm(offset[:, None], query, key.mT, alpha=scale, out=into)
    torch.softmax(into, -1, out=into)


def _heads(query: Tensor) -> Iterator[tuple[int, int]]:
    """Yield the index of each text and head."""
    yield from itertools.product(range(query.shape[0]), range(query.shape[1]))


def _chunks(query: Tensor, table: Tensor, size: int) -> Iterator[slice]:
    """Yield the chunks of inner blocks."""
    num_inner, num_listed = table.shape[1:]
    bytes_per_block = num_listed * size * query.shape[3] * query.element_size()
    chunk_size = max(_GATHERED // bytes_per_block, 1) if query.device.type == "cpu" else num_inner
    for first in range(0, num_inner, chunk_size):
        yield slice(first, min(first + chunk_size, num_inner))


def _by_block(
    query: Tensor, key: Tensor, value: Tensor, item: int, head: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries of a head, (N, size, K), its keys and its values, (N, size * K)."""
    queries = query[item, head].view(-1, size, query.shape[3])
    keys, values = (x[item, head].contiguous().view(len(queries), -1) for x in (key, value))
    return queries, keys, values


def _shares(table: Tensor, low: int, dtype: torch.dtype) -> Tensor:
    """Return a 0-1 matrix of the low blocks that inner blocks list as the first or a random one.

    Summing gradients by a matrix product takes a fifth of the time of adding block by block.

    Returns:
        Shape (H, low, N - 2, C).
    """
    summed = torch.ones(table.shape[2], dtype=torch.bool, device=table.device)
    summed[1:_FIXED] = False
    indices = torch.arange(low, device=table.device)[:, None, None]
    return ((table[:, None] == indices) & summed).to(dtype)


def _add_gathered(total: Tensor, grad: Tensor, share: Tensor, rows: slice) -> None:
    """Add gradients of gathered blocks, (n, C * size, K), to those of all blocks, (N, size * K).

    Args:
        total: gradients of all blocks.
        grad: gradients of the gathered blocks.
        share: see `_shares`. Shape (low, n * C).
        rows: the inner blocks that gathered them.
    """
    blocks = grad.view(share.shape[1], -1)  # (n * C, size * K)
    total[: len(share)].addmm_(share, blocks)
    by_block = blocks.view(len(grad), -1, blocks.shape[1])
    for shift in range(3):
        total[rows.start + shift : rows.stop + shift] += by_block[:, 1 + shift]
    total[-1] += by_block[:, _FIXED - 1].sum(0)
