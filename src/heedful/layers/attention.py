"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2) as pure functions.

Shapes: B batch, H heads, S query length, T key length, K head width.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.derivatives import once_differentiable
from heedful.errors import UserError, with_article
from heedful.layers.dropout import apply_keep, draw_keep

_LONG = 2**16
"""Number of attention weights per head, S * T, at which the backward pass recomputes them."""

_CHUNK_WEIGHTS = 2**18
"""Attention weights per chunk if they are recomputed; a chunk fits into a core's cache."""

_HALF = (torch.bfloat16, torch.float16)

_WIDENED = 2**22
"""Maximum number of attention weights to convert to float32 for a faster softmax; small, to save
memory."""

_SHORT = 16
"""Key length below which torch's fused half-precision kernel takes twice the plain path's time on
a CPU. The kernel works on vectors of this many keys, and on the remainder one by one."""


class AttentionOutput(NamedTuple):
    """Output of attention."""

    values: Tensor
    """The weighted sums of the values. Shape (B, H, S, K)."""
    weights: Tensor | None
    """The attention weights before dropout, if requested. Shape (B, H, S, T)."""
    kernel: str
    """``"fused"`` for torch's fused kernel, ``"varlen"`` for its kernel for packed texts, else
    ``"plain"``."""


def completed(output: Any) -> AttentionOutput:
    """Return the output of attention, from one or two values if a user's hook returns so many.

    Raises:
        UserError: a hook returns something else.
    """
    if isinstance(output, AttentionOutput):
        return output
    if not isinstance(output, tuple) or not 0 < len(output) <= len(AttentionOutput._fields):
        raise UserError(
            f"a hook of attention returned {with_article(type(output).__name__)}; return a tuple "
            "of the values and the weights, such as (output[0] * 2, *output[1:])"
        )
    return AttentionOutput(*output, *(None, "hook")[len(output) - 1 :])


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> AttentionOutput:
    """Return softmax-weighted sums of the values.

    A query without any allowed key gets zeros, and passes no gradient back.

    By default this calls torch's fused kernel. The plain path below runs instead in two cases. The
    kernel cannot return the weights, if they are requested. And on a CPU the kernel is slower for
    short texts in half precision, and in training with dropout, half precision or a trainable bias.
    Both paths give the same values and gradients. Only torch's own attention without the kernel
    has second derivatives: inside ``sdpa_kernel(SDPBackend.MATH)``.

    The plain path keeps the weights for the backward pass. For long sequences they would take most
    of a step's memory, so it recomputes them. Half precision is the exception: recomputing would
    take 50% more time there.

    Args:
        query: shape (B, H, S, K).
        key: shape (B, H, T, K).
        value: shape (B, H, T, K).
        mask: bool, True where a query may attend; broadcastable to (B, H, S, T), with 4 dimensions.
        bias: added to the scaled scores; same shape rules as ``mask``.
        dropout: dropout probability of the weights; 0 outside training.
        need_weights: whether to return the weights.
    """
    offset = None if bias is None else bias.to(query.dtype)
    has_keys = None
    if mask is not None:
        offset, has_keys = _additive_mask(mask, query) if offset is None else _masked(offset, mask)

    # torch traces a model twice, with and without gradients: both must take the same path.
    records = torch.is_grad_enabled() and torch._C._get_tracing_state() is None
    trains = records and any(x.requires_grad for x in (query, key, value))
    learns = records and bias is not None and bias.requires_grad
    half = query.dtype in _HALF
    short = half and key.shape[2] < _SHORT
    slow = query.device.type == "cpu" and (dropout > 0 or learns or (trains and half) or short)
    # Without the fused kernel, torch's attention has second derivatives.
    slow = slow and torch._C._get_flash_sdp_enabled()
    long = (trains or learns) and not half and query.shape[2] * key.shape[2] >= _LONG
    weights = None
    if not (slow or need_weights):
        mixed = F.scaled_dot_product_attention(query, key, value, offset, dropout)
    elif long and not need_weights:
        mixed = _Recomputing.apply(query, key, value, offset, dropout)  # type: ignore[no-untyped-call]
    else:
        mixed, weights = _Plain.apply(query, key, value, offset, dropout, need_weights)  # type: ignore[no-untyped-call]
    if has_keys is not None:
        mixed = mixed * has_keys.to(mixed.dtype)
        weights = None if weights is None else weights * has_keys.to(mixed.dtype)
    return AttentionOutput(mixed, weights, "plain" if slow or need_weights else "fused")


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
) -> AttentionOutput:
    """Compute talking-heads attention (Shazeer et al. 2020).

    Heads mix their scores, and then their weights. No fused kernel supports this.

    Args:
        query: see `attend`.
        key: see `attend`.
        value: see `attend`.
        talk: matrices that mix the scores before the softmax and the weights after it. Both of
            shape (H, H).
        mask: see `attend`; the same for all heads.
        bias: added to the scaled scores before heads mix them.
        dropout: see `attend`.
        need_weights: whether to return the mixed weights, after dropout.
    """
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    scores = torch.einsum("gh,bhst->bgst", talk[0], scores)
    has_keys = None
    if mask is not None:
        scores, has_keys = _masked(scores, mask)
    weights = scores.softmax(-1)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    weights = torch.einsum("gh,bhst->bgst", talk[1], weights)
    if has_keys is not None:
        weights = weights * has_keys.to(weights.dtype)
    return AttentionOutput(weights @ value, weights if need_weights else None, "plain")


def _additive_mask(mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``_masked`` of zero scores, cached on the mask because all blocks share it."""
    key = (query.dtype, torch.is_inference_mode_enabled())
    cached: dict[object, tuple[Tensor, Tensor]] = getattr(mask, "offsets", {})
    if key not in cached:
        cached[key] = _masked(query.new_zeros(()), mask)
        mask.offsets = cached  # type: ignore[attr-defined]
    return cached[key]


def _masked(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the masked scores, and whether each query has any key. Second shape (B, H, S, 1)."""
    has_keys = mask.any(-1, keepdim=True)
    # The only line that applies a mask. The scores of a query without keys stay finite: the
    # gradient of a softmax over only -inf is NaN. Its output is set to zeros later.
    return scores.masked_fill(~mask & has_keys, -math.inf), has_keys


class _Plain(torch.autograd.Function):
    """Attention by batched matmuls. Saves the weights and the dropout mask for backward."""

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
        weights, keep, ctx.keep_scale = attention_weights(query, key, offset, dropout)
        mixed = weighted_sum(weights, keep, ctx.keep_scale, value)
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
        gradients = attention_backward(
            query, key, value, weights, keep, ctx.keep_scale, grad, grad_weights
        )
        *grads, grad_scores = (x.view(*heads, *x.shape[1:]) for x in gradients)
        grad_offset = None
        if ctx.needs_input_grad[3]:
            grad_offset = grad_scores.sum_to_size(ctx.offset_shape)
        return *grads, grad_offset, None, None


class _Recomputing(torch.autograd.Function):
    """Attention in chunks of heads of one sequence. Saves only its inputs for backward.

    The backward pass recomputes the weights (Dao et al. 2022, "FlashAttention", section 3.1), and
    draws the same dropout mask again. A chunk fits into a core's cache, which makes up for most of
    the extra time.
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
        for chunk in _chunks(query, key):
            queries, keys, values, offsets = _chunk_of(query, key, value, offset, chunk)
            weights, keep, scale = attention_weights(queries, keys, offsets, dropout)
            mixed[chunk] = weighted_sum(weights, keep, scale, values)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, offset = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (query, key, value)]
        grad_offset = torch.zeros_like(offset) if ctx.needs_input_grad[3] else None
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.random)
            for chunk in _chunks(query, key):
                queries, keys, values, offsets = _chunk_of(query, key, value, offset, chunk)
                weights, keep, scale = attention_weights(queries, keys, offsets, ctx.dropout)
                *gradients, grad_scores = attention_backward(
                    queries, keys, values, weights, keep, scale, grad[chunk].flatten(0, 1), None
                )
                for total, gradient in zip(grads, gradients, strict=True):
                    total[chunk] = gradient
                if grad_offset is not None:
                    index = tuple(
                        rows if size > 1 else slice(None)
                        for rows, size in zip(chunk, offset.shape, strict=False)
                    )
                    grad_chunk = grad_offset[index]
                    grad_chunk += grad_scores[None].sum_to_size(grad_chunk.shape)
        return *grads, grad_offset, None


_Chunk = tuple[slice, slice]
"""Index of one sequence in the batch, and of a range of its heads."""


def _chunks(query: Tensor, key: Tensor) -> Iterator[_Chunk]:
    """Yield the chunks in which a long sequence is computed."""
    items, heads, queries, _ = query.shape
    chunk_heads = max(_CHUNK_WEIGHTS // (queries * key.shape[2]), 1)
    for item in range(items):
        for head in range(0, heads, chunk_heads):
            yield slice(item, item + 1), slice(head, head + chunk_heads)


def _chunk_of(
    query: Tensor, key: Tensor, value: Tensor, offset: Tensor | None, chunk: _Chunk
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return a chunk of the inputs of attention, with batch and heads as one dimension."""
    wide = None if offset is None else offset.expand(*query.shape[:2], -1, -1)
    return (
        query[chunk].flatten(0, 1),
        key[chunk].flatten(0, 1),
        value[chunk].flatten(0, 1),
        None if wide is None else wide[chunk].flatten(0, 1),
    )


# With weights W, dropout mask M and dropout scale c, attention is c (W M) V. For the output
# gradient g, the gradient of W is M (c g V'). N is batch size times heads.


def attention_weights(
    query: Tensor, key: Tensor, offset: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor | None, float]:
    """Return the weights W, (N, S, T), the dropout mask M of that shape or None, and c."""
    with torch.autocast(query.device.type, enabled=False):
        scores = _product(query, key.mT, 1 / math.sqrt(query.shape[-1]), offset)
        weights = _softmax(scores)
    if dropout == 0:
        return weights, None, 1.0
    return weights, *draw_keep(weights, dropout)


def _softmax(scores: Tensor) -> Tensor:
    """Return the softmax of each row.

    In half precision on a CPU, torch works on vectors of 32 values, and on the remainder of a row
    one by one. That takes three times as long as converting to float32 and back.
    """
    half_on_cpu = scores.dtype in _HALF and scores.device.type == "cpu"
    if half_on_cpu and scores.shape[-1] % 32 and scores.numel() <= _WIDENED:
        return scores.float().softmax(-1).to(scores.dtype)
    return scores.softmax(-1)


def weighted_sum(weights: Tensor, keep: Tensor | None, scale: float, value: Tensor) -> Tensor:
    """Return c (W M) V. Shape (N, S, K)."""
    with torch.autocast(value.device.type, enabled=False):
        return _product(weights if keep is None else apply_keep(weights, keep), value, scale)


def attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    keep: Tensor | None,
    scale: float,
    grad: Tensor,
    grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys, values and scores, given the output gradients."""
    dropped = weights if keep is None else apply_keep(weights, keep)
    grad_value = _product(dropped.mT, grad, scale)
    inner = _product(grad, value.mT, scale)  # (N, S, T)
    if keep is not None:
        inner = apply_keep(inner, keep)
    if grad_weights is not None:
        inner += grad_weights
    inner = torch.ops.aten._softmax_backward_data(inner, weights, -1, weights.dtype)
    scale_qk = 1 / math.sqrt(query.shape[-1])
    return _product(inner, key, scale_qk), _product(inner.mT, query, scale_qk), grad_value, inner


def _product(left: Tensor, right: Tensor, scale: float, offset: Tensor | None = None) -> Tensor:
    """Return the batched ``scale * left @ right + offset`` in one pass over the result."""
    if offset is None:
        return torch.baddbmm(left.new_empty(1), left, right, beta=0, alpha=scale)
    return torch.baddbmm(offset, left, right, alpha=scale)
