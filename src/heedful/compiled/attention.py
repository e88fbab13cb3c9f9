"""Attention of packed sequences, without padding and without a mask.

Sequences of equal length are computed as one batch. So the result of a sequence does not depend on
the length of its neighbours.

Shapes: N tokens of all sequences, M queries of all sequences, B sequences of length T, S queries
per sequence, H heads, K head width.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.position_terms import LaidOutTerms
from heedful.layers.blocksparse import BlockSparse

_CHUNK_WEIGHTS = 2**19
"""Attention weights per chunk: few enough for a core's cache, many enough to amortise the calls."""

_SHORT = 32
"""The largest length at which half-precision sequences are computed in float32: half-precision
products take longer to start. The rule depends only on the length, so a result does not depend on
neighbouring sequences."""

_LONG = 256
"""The smallest length at which float32 sequences use the fused kernel. For shorter sequences it
takes two to six times as long as batched products with two threads, and as long with one thread.
For longer sequences batched products do not keep the weights in the cache."""

_HALF_LANES = 32
"""SIMD width in half precision; torch's softmax is slow for the remainder."""

_FLOAT32_LANES = 16
"""SIMD width in float32; torch's softmax works on single values if there are fewer."""


class Group(NamedTuple):
    """Consecutive sequences of the same length."""

    size: int
    length: int


def attend(
    query: Tensor,
    memory: Tensor,
    groups: Sequence[Group],
    head_width: int,
    *,
    only_first: bool,
    bias: Tensor | None = None,
    causal: bool = False,
    sparse: BlockSparse | None = None,
    terms: LaidOutTerms | None = None,
) -> Tensor:
    """Return the softmax-weighted values of each sequence.

    Args:
        query: queries of all tokens, or of the first token of each sequence. Shape (M, H * K).
        memory: keys and values of all tokens. Shape (N, 2 * H * K).
        groups: the sequences in order. Tokens after the last sequence attend to nothing.
        head_width: K.
        only_first: whether the queries are only those of the first tokens.
        bias: added to the scaled scores of each sequence, from its first token on. Shape (H,
            length, length), with at least the length of the longest sequence.
        causal: whether attention is causal; not supported with ``only_first`` or ``bias``.
        sparse: sparse attention for long sequences; None for full attention.
        terms: position terms of the scores, for at least as many tokens.

    Returns:
        Shape (M, H * K), contiguous.
    """
    width = query.shape[1]
    heads = width // head_width
    mixed = query.new_empty(query.shape[0], width)
    half = query.dtype is not torch.float32
    query_start = token_start = 0
    for count, length in _chunks(groups, heads, head_width, only_first=only_first):
        queries = 1 if only_first else length
        rows = slice(query_start, query_start + count * queries)
        keys_values = memory[token_start : token_start + count * length]
        key, value = keys_values.view(count, length, 2, heads, head_width).permute(2, 0, 3, 1, 4)
        query_chunk = query[rows].view(count, queries, heads, head_width).transpose(1, 2)
        offset = None if bias is None else bias[None, :, :queries, :length]  # (1, H, S, T)
        if terms is not None:
            offset = terms.bias(
                query_chunk, key, slice(token_start, token_start + count * length)
            )  # (B, H, S, T)
        dtype = query.dtype if half and length > _SHORT else torch.float32
        if sparse is not None and not only_first and sparse.blocks(length):
            result = sparse.attend_alone(query_chunk, key, value)  # (B, H, S, K)
        elif dtype is torch.float32 and (only_first or causal or length >= _LONG):
            float_offset = None if offset is None else offset.float()
            inputs = (query_chunk.float(), key.float(), value.float(), float_offset)
            result = F.scaled_dot_product_attention(*inputs, is_causal=causal)
        else:
            if causal:
                offset = key.new_full((length, length), -math.inf).triu_(1)[None, None]
            result = _plain(query_chunk, key, value, offset, dtype)
        mixed[rows].view(count, queries, heads, head_width).copy_(result.transpose(1, 2))
        query_start, token_start = rows.stop, token_start + count * length
    mixed[query_start:] = 0
    return mixed


def _chunks(
    groups: Sequence[Group], heads: int, head_width: int, *, only_first: bool
) -> Iterator[Group]:
    """Yield the sequences in chunks whose weights, or keys and values, fit into a core's cache."""
    for count, length in groups:
        weights = heads * length * max(1 if only_first else length, 2 * head_width)
        chunk_size = max(_CHUNK_WEIGHTS // weights, 1)
        for first in range(0, count, chunk_size):
            yield Group(min(chunk_size, count - first), length)


def _plain(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return shape (B, H, S, K) for queries of that shape, and keys and values (B, H, T, K)."""
    batch, heads, queries, width = query.shape
    inputs = (query, key, value)
    query, key, value = (x.reshape(batch * heads, -1, width).to(dtype) for x in inputs)
    scores = torch.baddbmm(query.new_empty(1), query, key.mT, beta=0, alpha=1 / math.sqrt(width))
    if bias is not None:
        scores.view(batch, heads, queries, -1).add_(bias)
    if (keys := scores.shape[2]) < _FLOAT32_LANES:
        padded = F.pad(scores, (0, _FLOAT32_LANES - keys), value=-math.inf)
        weights = padded.softmax(-1)[..., :keys]
    elif keys % _HALF_LANES:
        weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    else:
        weights = scores.softmax(-1)
    return torch.bmm(weights, value).view(batch, heads, -1, width)
