"""Attention of sequences whose tokens lie one after the other, without padding and without a mask.

Sequences of one length are computed together, so what a sequence gets does not depend on how long
its neighbours are.

Shapes: N tokens of all sequences, M queries of all sequences, B sequences of one length T, S
queries of each, H heads, K head width.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.terms import LaidOutTerms
from heedful.layers.blocksparse import BlockSparse

_TOGETHER = 2**19
"""Weights that are computed at once: few enough for a core's cache, many enough for their calls."""

_SHORT = 32
"""The length up to which a sequence in half precision is computed in float32: products in half
precision take longer to start. It depends on nothing but the length, so that an answer does not
depend on its neighbours."""

_LONG = 256
"""The length from which on a sequence in float32 is computed by the fused kernel. Of shorter ones
that takes two to six times as long with two threads as products in a batch do, and as long with
one; of longer ones they do not keep the weights in the cache."""

_LANES = 32
"""Numbers in half precision that are computed at once; torch's softmax is slow with the rest."""

_FEWEST = 16
"""Numbers in float32 that are computed at once; torch's softmax takes one by one if there are not
so many."""


class Group(NamedTuple):
    """Sequences of one length, one after the other."""

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
    """Mix the values of each sequence by how well their keys fit each query.

    Args:
        query: of every token, or the first of each sequence. Shape (M, H * K).
        memory: keys and values of every token. Shape (N, 2 * H * K).
        groups: the sequences in order. Tokens after the last of them attend to nothing.
        head_width: K.
        only_first: whether only the first token of each sequence asks.
        bias: added to the scaled scores of each sequence, from its first token on; at least as long
            as the longest. Shape (H, length, length).
        causal: whether a token attends to none after it; then each asks, and there is no bias.
        sparse: how long sequences are read, if not every token by every token.
        terms: what positions add to them, of as many tokens.

    Returns:
        Shape (M, H * K), contiguous.
    """
    width = query.shape[1]
    heads = width // head_width
    mixed = query.new_empty(query.shape[0], width)
    half = query.dtype is not torch.float32
    asking = tokens = 0
    for count, length in _in_cache(groups, heads, head_width, only_first=only_first):
        queries = 1 if only_first else length
        rows = slice(asking, asking + count * queries)
        keys_values = memory[tokens : tokens + count * length]
        key, value = keys_values.view(count, length, 2, heads, head_width).permute(2, 0, 3, 1, 4)
        part = query[rows].view(count, queries, heads, head_width).transpose(1, 2)
        offset = None if bias is None else bias[None, :, :queries, :length]  # (1, H, S, T)
        if terms is not None:
            offset = terms.bias(part, key, slice(tokens, tokens + count * length))  # (B, H, S, T)
        dtype = query.dtype if half and length > _SHORT else torch.float32
        if sparse is not None and not only_first and sparse.blocks(length):
            result = sparse.attend_alone(part, key, value)  # (B, H, S, K)
        elif dtype is torch.float32 and (only_first or causal or length >= _LONG):
            wide = None if offset is None else offset.float()
            inputs = (part.float(), key.float(), value.float(), wide)
            result = F.scaled_dot_product_attention(*inputs, is_causal=causal)
        else:
            if causal:
                offset = key.new_full((length, length), -math.inf).triu_(1)[None, None]
            result = _plain(part, key, value, offset, dtype)
        mixed[rows].view(count, queries, heads, head_width).copy_(result.transpose(1, 2))
        asking, tokens = rows.stop, tokens + count * length
    mixed[asking:] = 0
    return mixed


def _in_cache(
    groups: Sequence[Group], heads: int, head_width: int, *, only_first: bool
) -> Iterator[Group]:
    """Yield the sequences in parts whose weights, or what these are of, fit into a core's cache."""
    for count, length in groups:
        weights = heads * length * max(1 if only_first else length, 2 * head_width)
        together = max(_TOGETHER // weights, 1)
        for first in range(0, count, together):
            yield Group(min(together, count - first), length)


def _plain(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return shape (B, H, S, K) for queries of this shape, and keys and values (B, H, T, K)."""
    batch, heads, queries, width = query.shape
    inputs = (query, key, value)
    query, key, value = (x.reshape(batch * heads, -1, width).to(dtype) for x in inputs)
    scores = torch.baddbmm(query.new_empty(1), query, key.mT, beta=0, alpha=1 / math.sqrt(width))
    if bias is not None:
        scores.view(batch, heads, queries, -1).add_(bias)
    if (keys := scores.shape[2]) < _FEWEST:
        padded = F.pad(scores, (0, _FEWEST - keys), value=-math.inf)
        weights = padded.softmax(-1)[..., :keys]
    elif keys % _LANES:
        weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    else:
        weights = scores.softmax(-1)
    return torch.bmm(weights, value).view(batch, heads, -1, width)
