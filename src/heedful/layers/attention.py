"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2) as one pure function.

Shapes: B batch, H heads, S query length, T key length, K head width.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.layers.dropout import apply_keep, draw_keep


class Mixed(NamedTuple):
    """What attention gives."""

    values: Tensor
    """The mixed values. Shape (B, H, S, K)."""
    weights: Tensor | None
    """The weights before dropout, if asked for. Shape (B, H, S, T)."""
    kernel: str
    """``"fused"`` if torch's kernel ran, else ``"plain"``."""


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
    return, and in training on a CPU, where its dropout and its backward pass in half precision are
    several times slower than the plain way below. Both give the same values and gradients.

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
        reach = mask.any(-1, keepdim=True)  # (B, H, S, 1): whether the query has any key
        zero = query.new_zeros(()) if offset is None else offset
        # The one line that applies a mask. A query without keys keeps a finite softmax, because
        # the gradient of one over nothing but -inf is not a number; it gets its zeros below.
        offset = zero.masked_fill(~mask & reach, -math.inf)

    inputs = (query, key, value) if bias is None else (query, key, value, bias)
    trains = dropout > 0 or (torch.is_grad_enabled() and any(x.requires_grad for x in inputs))
    weights = None
    kernel = "plain" if need_weights or (trains and query.device.type == "cpu") else "fused"
    if kernel == "plain":
        mixed, weights = _Plain.apply(query, key, value, offset, dropout, need_weights)  # type: ignore[no-untyped-call]
    else:
        mixed = F.scaled_dot_product_attention(query, key, value, offset, dropout)
    if reach is not None:
        mixed = mixed * reach.to(mixed.dtype)
        weights = None if weights is None else weights * reach.to(mixed.dtype)
    return Mixed(mixed, weights, kernel)


class _Plain(torch.autograd.Function):
    """Attention by batched matrix products, keeping the weights and the drawn bits for backward.

    N stands for B * H. With weights W, dropout's zeros and ones M and its scale c, the forward pass
    is c (W M) V; for the gradient g of that, the gradient of W is M (c g V').
    """

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
            offset = offset.expand(*heads, *offset.shape[2:]).flatten(0, 1)  # (N, 1 or S, T)
        ctx.scores_scale = 1 / math.sqrt(query.shape[-1])
        with torch.autocast(query.device.type, enabled=False):
            scores = _product(query, key.mT, ctx.scores_scale, offset)  # (N, S, T)
            weights = scores.softmax(-1)
            keep, ctx.keep_scale = draw_keep(weights, dropout) if dropout > 0 else (None, 1.0)
            kept = weights if keep is None else apply_keep(weights, keep)
            mixed = _product(kept, value, ctx.keep_scale)  # (N, S, K)
        ctx.save_for_backward(query, key, value, weights, keep)
        whole = weights.view(*heads, *weights.shape[1:]) if need_weights else None
        return mixed.view(*heads, *mixed.shape[1:]), whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, weights, keep = ctx.saved_tensors
        heads = grad.shape[:2]
        grad = grad.flatten(0, 1)  # (N, S, K)
        kept = weights if keep is None else apply_keep(weights, keep)
        grad_value = _product(kept.mT, grad, ctx.keep_scale)
        inner = _product(grad, value.mT, ctx.keep_scale)  # (N, S, T)
        if keep is not None:
            inner = apply_keep(inner, keep)
        if grad_weights is not None:
            inner += grad_weights.flatten(0, 1)
        inner = torch.ops.aten._softmax_backward_data(inner, weights, -1, weights.dtype)
        grad_query = _product(inner, key, ctx.scores_scale)
        grad_key = _product(inner.mT, query, ctx.scores_scale)
        grad_offset = None
        if ctx.needs_input_grad[3]:
            grad_offset = inner.view(*heads, *inner.shape[1:]).sum_to_size(ctx.offset_shape)
        grads = (x.view(*heads, *x.shape[1:]) for x in (grad_query, grad_key, grad_value))
        return *grads, grad_offset, None, None


def _product(left: Tensor, right: Tensor, scale: float, offset: Tensor | None = None) -> Tensor:
    """Return batched ``scale * left @ right + offset`` in one pass over the result."""
    if offset is None:
        return torch.baddbmm(left.new_empty(1), left, right, beta=0, alpha=scale)
    return torch.baddbmm(offset, left, right, alpha=scale)
