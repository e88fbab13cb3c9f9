"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2) as one pure function.

Shapes: B batch, H heads, S query length, T key length, K head width, D model width (H * K).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.layers.dropout import apply_keep, draw_keep


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
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

    Returns:
        The mixed values, shape (B, H, S, K), and the weights before dropout, shape (B, H, S, T),
        or None if they were not asked for.
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
    if need_weights or (trains and query.device.type == "cpu"):
        mixed, weights = _Plain.apply(query, key, value, offset, dropout, need_weights)  # type: ignore[no-untyped-call]
    else:
        mixed = F.scaled_dot_product_attention(query, key, value, offset, dropout)
    if reach is not None:
        mixed = mixed * reach.to(mixed.dtype)
        weights = None if weights is None else weights * reach.to(mixed.dtype)
    return mixed, weights


class _Plain(torch.autograd.Function):
    """Attention by batched matrix products, whose backward pass keeps as little as it can.

    N stands for B * H. With weights W, dropout's zeros and ones M and scale c, the forward pass is
    out = c (W M) V. For the gradient g of out, that of W is M (c g V'), and the softmax turns it to
    W (M (c g V') - delta), where delta = sum over T of W M (c g V') = g . out.
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
        shape = query.shape
        ctx.scores_scale = 1 / math.sqrt(shape[-1])
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (N, S or T, K)
        with torch.autocast(query.device.type, enabled=False):
            if offset is None:
                scores = torch.bmm(query, key.transpose(1, 2)).mul_(ctx.scores_scale)
            else:
                rows = offset.expand(*shape[:2], *offset.shape[2:]).flatten(0, 1)
                scores = torch.baddbmm(rows, query, key.transpose(1, 2), alpha=ctx.scores_scale)
            weights = scores.softmax(-1)  # (N, S, T)
            keep, ctx.keep_scale = draw_keep(weights, dropout) if dropout > 0 else (None, 1.0)
            mixed = torch.bmm(_dropped(weights, keep), value)  # (N, S, K)
        if keep is not None:
            mixed.mul_(ctx.keep_scale)
        ctx.offset_shape = None if offset is None else offset.shape
        ctx.save_for_backward(query, key, value, weights, keep, mixed)
        whole = weights.view(*shape[:2], *weights.shape[1:]) if need_weights else None
        return mixed.view(shape), whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, weights, keep, mixed = ctx.saved_tensors
        heads = grad.shape[:2]
        grad = grad.flatten(0, 1)  # (N, S, K)
        delta = (grad * mixed).sum(-1, keepdim=True)  # (N, S, 1)
        if keep is not None:
            grad = grad * ctx.keep_scale
        grad_value = torch.bmm(_dropped(weights, keep).transpose(1, 2), grad)
        grad_scores = torch.bmm(grad, value.transpose(1, 2))  # (N, S, T)
        if keep is not None:
            grad_scores = apply_keep(grad_scores, keep)
        if grad_weights is not None:
            grad_weights = grad_weights.flatten(0, 1)
            grad_scores.add_(grad_weights)
            delta.add_((weights * grad_weights).sum(-1, keepdim=True))
        grad_scores.sub_(delta).mul_(weights)
        grad_query = torch.bmm(grad_scores, key).mul_(ctx.scores_scale)
        grad_key = torch.bmm(grad_scores.transpose(1, 2), query).mul_(ctx.scores_scale)
        grad_offset = None
        if ctx.needs_input_grad[3]:
            grad_offset = grad_scores.view(*heads, *grad_scores.shape[1:])
            grad_offset = grad_offset.sum_to_size(ctx.offset_shape)
        grads = (x.view(*heads, *x.shape[1:]) for x in (grad_query, grad_key, grad_value))
        return *grads, grad_offset, None, None


def _dropped(weights: Tensor, keep: Tensor | None) -> Tensor:
    return weights if keep is None else apply_keep(weights, keep)


class SelfAttention(nn.Module):
    """Multi-head self-attention without its output projection.

    Args:
        width: D, a multiple of ``num_heads``.
        num_heads: H.
        dropout: probability with which an attention weight is dropped in training.
    """

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(
        self, hidden: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the mixed values, shape (B, S, D), and the weights, shape (B, H, S, S), or None.

        Args:
            hidden: shape (B, S, D).
            mask: bool, broadcastable to (B, H, S, S); None lets every query attend to all.
            need_weights: whether to return the weights.
        """
        mixed, weights = attend(
            self._split(self.query(hidden)),
            self._split(self.key(hidden)),
            self._split(self.value(hidden)),
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return mixed.transpose(1, 2).flatten(2), weights  # (B, S, D)

    def _split(self, hidden: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        return hidden.view(batch, length, self.num_heads, -1).transpose(1, 2)  # (B, H, S, K)
