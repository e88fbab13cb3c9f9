"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2) as one pure function.

Shapes: B batch, H heads, S query length, T key length, K head width.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.layers.dropout import apply_keep, draw_keep

_LONG = 2**16
"""Weights of one head, S * T, from which on they are not kept for the backward pass."""

_TOGETHER = 2**18
"""Weights that are computed at once where they are not kept: few enough for a core's cache."""

_HALF = (torch.bfloat16, torch.float16)

_WIDENED = 2**22
"""Weights that are computed in float32 for speed: so few that it takes little memory."""

_SHORT = 16
"""Keys below which torch's fused kernel in half precision takes twice the plain way's time on a
CPU: it works on so many at once, and on what is left one by one."""


class Mixed(NamedTuple):
    """What attention returns."""

    values: Tensor
    """The mixed values. Shape (B, H, S, K)."""
    weights: Tensor | None
    """The weights before dropout, if asked for. Shape (B, H, S, T)."""
    kernel: str
    """``"fused"`` if torch's kernel ran, ``"varlen"`` if its kernel for texts without padding did,
    else ``"plain"``."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Mixed:
    """Mix the values by how well their keys fit each query.

    A query that may attend to nothing gets zeros, and sends no gradient back.

    The fused kernel of torch is used except where the weights are asked for, which it cannot
    return, and on a CPU where it is slower than the plain way below: for short texts in half
    precision, and in training with dropout, in half precision or with a bias that learns. Both give
    the same values and gradients. The plain way keeps the weights for the backward pass; of long
    sequences, where they would be most of what a step holds, it computes them anew, except in half
    precision, where that takes half as long again.

    Args:
        query: shape (B, H, S, K).
        key: shape (B, H, T, K).
        value: shape (B, H, T, K).
        mask: bool, True where a query may attend; broadcastable to (B, H, S, T), of 4 dimensions.
        bias: added to the scaled scores; like ``mask``.
        dropout: probability with which a weight is dropped; 0 outside training.
        need_weights: whether to return the weights.
    """
    offset = None if bias is None else bias.to(query.dtype)
    reach = None
    if mask is not None:
        offset, reach = _offset(mask, query) if offset is None else _masked(offset, mask)

    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    learns = torch.is_grad_enabled() and bias is not None and bias.requires_grad
    half = query.dtype in _HALF
    short = half and key.shape[2] < _SHORT
    slow = query.device.type == "cpu" and (dropout > 0 or learns or (trains and half) or short)
    long = (trains or learns) and not half and query.shape[2] * key.shape[2] >= _LONG
    weights = None
    if not (slow or need_weights):
        mixed = F.scaled_dot_product_attention(query, key, value, offset, dropout)
    elif long and not need_weights:
        mixed = _Long.apply(query, key, value, offset, dropout)  # type: ignore[no-untyped-call]
    else:
        mixed, weights = _Plain.apply(query, key, value, offset, dropout, need_weights)  # type: ignore[no-untyped-call]
    if reach is not None:
        mixed = mixed * reach.to(mixed.dtype)
        weights = None if weights is None else weights * reach.to(mixed.dtype)
    return Mixed(mixed, weights, "plain" if slow or need_weights else "fused")


def attend_talking(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    talk: tuple[Tensor, Tensor],
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
    need_weights: bool,
) -> Mixed:
    """Do the same with heads that mix their scores, and then their weights.

    Such are the talking heads of Shazeer et al. 2020. No fused kernel computes them.

    Args:
        query: see `attend` for this and the rest.
        key: the same.
        value: the same.
        talk: what scores are multiplied by before the softmax, and weights after it. Both of shape
            (H, H).
        mask: the same; it is of no head alone.
        bias: added to the scaled scores before heads mix them.
        dropout: the same.
        need_weights: the same. They are those that were mixed, after dropout.
    """
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    scores = torch.einsum("gh,bhst->bgst", talk[0], scores)
    reach = None
    if mask is not None:
        scores, reach = _masked(scores, mask)
    weights = scores.softmax(-1)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    weights = torch.einsum("gh,bhst->bgst", talk[1], weights)
    if reach is not None:
        weights = weights * reach.to(weights.dtype)
    return Mixed(weights @ value, weights if need_weights else None, "plain")


def _offset(mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``_masked`` for scores of zeros: made once for all blocks, which share a mask."""
    about = (query.dtype, torch.is_inference_mode_enabled())
    known: dict[object, tuple[Tensor, Tensor]] = getattr(mask, "offsets", {})
    if about not in known:
        known[about] = _masked(query.new_zeros(()), mask)
        mask.offsets = known  # type: ignore[attr-defined]
    return known[about]


def _masked(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores with a mask applied, and which queries have any key, (B, H, S, 1)."""
    reach = mask.any(-1, keepdim=True)
    # The one line that applies a mask. A query without keys keeps a finite softmax, because the
    # gradient of one over nothing but -inf is not a number; it gets its zeros later.
    return scores.masked_fill(~mask & reach, -math.inf), reach


class _Plain(torch.autograd.Function):
    """Attention by batched matrix products, keeping the weights and the drawn bits for backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        offset: Tensor | None,
        dropout: float,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        heads = query.shape[:2]
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (N, S or T, K)
        if offset is not None:
            ctx.offset_shape = offset.shape
            offset = offset.expand(*heads, -1, -1).flatten(0, 1)  # (N, 1 or S, T)
        weights, keep, ctx.keep_scale = weigh(query, key, offset, dropout)
        mixed = mix(weights, keep, ctx.keep_scale, value)
        ctx.save_for_backward(query, key, value, weights, keep)
        by_head = weights.view(*heads, *weights.shape[1:]) if need_weights else None
        return mixed.view(*heads, *mixed.shape[1:]), by_head

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, weights, keep = ctx.saved_tensors
        heads = grad.shape[:2]
        grad = grad.flatten(0, 1)
        grad_weights = None if grad_weights is None else grad_weights.flatten(0, 1)
        gradients = gradients_of(
            query, key, value, weights, keep, ctx.keep_scale, grad, grad_weights
        )
        *grads, grad_scores = (x.view(*heads, *x.shape[1:]) for x in gradients)
        grad_offset = None
        if ctx.needs_input_grad[3]:
            grad_offset = grad_scores.sum_to_size(ctx.offset_shape)
        return *grads, grad_offset, None, None


class _Long(torch.autograd.Function):
    """The same for some heads of one item at a time, keeping nothing but its inputs.

    The backward pass computes the weights anew, as Dao et al. 2022, "FlashAttention", section 3.1,
    does, and draws the same bits. What is computed at once fits into a core's cache, which makes up
    for most of the time.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        offset: Tensor | None,
        dropout: float,
    ) -> Tensor:
        ctx.dropout, ctx.random = dropout, torch.get_rng_state()
        ctx.save_for_backward(query, key, value, offset)
        mixed = torch.empty_like(query)
        for part in _parts(query, key):
            queries, keys, values, offsets = _part_of(query, key, value, offset, part)
            weights, keep, scale = weigh(queries, keys, offsets, dropout)
            mixed[part] = mix(weights, keep, scale, values)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (query, key, value)]
        grad_offset = torch.zeros_like(offset) if ctx.needs_input_grad[3] else None
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.random)
            for part in _parts(query, key):
                queries, keys, values, offsets = _part_of(query, key, value, offset, part)
                weights, keep, scale = weigh(queries, keys, offsets, ctx.dropout)
                *gradients, grad_scores = gradients_of(
                    queries, keys, values, weights, keep, scale, grad[part].flatten(0, 1), None
                )
                for total, gradient in zip(grads, gradients, strict=True):
                    total[part] = gradient
                if grad_offset is not None:
                    index = tuple(
                        rows if size > 1 else slice(None)
                        for rows, size in zip(part, offset.shape, strict=False)
                    )
                    grad_part = grad_offset[index]
                    grad_part += grad_scores[None].sum_to_size(grad_part.shape)
        return *grads, grad_offset, None


_Part = tuple[slice, slice]
"""An item, and some of its heads."""


def _parts(query: Tensor, key: Tensor) -> Iterator[_Part]:
    """Yield what is computed at once of a long sequence."""
    items, heads, queries, _ = query.shape
    size = max(_TOGETHER // (queries * key.shape[2]), 1)
    for item in range(items):
        for head in range(0, heads, size):
            yield slice(item, item + 1), slice(head, head + size)


def _part_of(
    query: Tensor, key: Tensor, value: Tensor, offset: Tensor | None, part: _Part
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return a part of the inputs of attention, with items and heads as one dimension."""
    wide = None if offset is None else offset.expand(*query.shape[:2], -1, -1)
    return (
        query[part].flatten(0, 1),
        key[part].flatten(0, 1),
        value[part].flatten(0, 1),
        None if wide is None else wide[part].flatten(0, 1),
    )


# With weights W, dropout's zeros and ones M and its scale c, attention is c (W M) V; for the
# gradient g of that, the gradient of W is M (c g V'). N stands for items times heads.


def weigh(
    query: Tensor, key: Tensor, offset: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor | None, float]:
    """Return W, (N, S, T), the bits M of the same shape if there is dropout, and c."""
    with torch.autocast(query.device.type, enabled=False):
        scores = _product(query, key.mT, 1 / math.sqrt(query.shape[-1]), offset)
        weights = _softmax(scores)
    if dropout == 0:
        return weights, None, 1.0
    return weights, *draw_keep(weights, dropout)


def _softmax(scores: Tensor) -> Tensor:
    """Return the softmax of each row.

    In half precision torch works on a CPU on 32 numbers at once, and on what is left of a row one
    by one, which takes three times as long as to go to float32 and back.
    """
    narrow = scores.dtype in _HALF and scores.device.type == "cpu"
    if narrow and scores.shape[-1] % 32 and scores.numel() <= _WIDENED:
        return scores.float().softmax(-1).to(scores.dtype)
    return scores.softmax(-1)


def mix(weights: Tensor, keep: Tensor | None, scale: float, value: Tensor) -> Tensor:
    """Return c (W M) V. Shape (N, S, K)."""
    with torch.autocast(value.device.type, enabled=False):
        return _product(weights if keep is None else apply_keep(weights, keep), value, scale)


def gradients_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    keep: Tensor | None,
    scale: float,
    grad: Tensor,
    grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys, values and scores for those of the outputs."""
    dropped = weights if keep is None else apply_keep(weights, keep)
    grad_value = _product(dropped.mT, grad, scale)
    inner = _product(grad, value.mT, scale)  # (N, S, T)
    if keep is not None:
        inner = apply_keep(inner, keep)
    if grad_weights is not None:
        inner += grad_weights
    inner = torch.ops.aten._softmax_backward_data(inner, weights, -1, weights.dtype)
    width = 1 / math.sqrt(query.shape[-1])
    return _product(inner, key, width), _product(inner.mT, query, width), grad_value, inner


def _product(left: Tensor, right: Tensor, scale: float, offset: Tensor | None = None) -> Tensor:
    """Return batched ``scale * left @ right + offset`` in one pass over the result."""
    if offset is None:
        return torch.baddbmm(left.new_empty(1), left, right, beta=0, alpha=scale)
    return torch.baddbmm(offset, left, right, alpha=scale)
