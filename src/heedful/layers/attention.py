"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2) as one pure function.

Shapes: B batch, H heads, S query length, T key length, K head width, D model width (H * K).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.dropout import dropout as drop


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

    A query that may attend to nothing gets zeros, and sends no gradient back. The fused kernel of
    torch is used where it can be: it cannot return the weights, and on a CPU it has no dropout.
    Both ways give the same values and gradients.

    Args:
        query: shape (B, H, S, K).
        key: shape (B, H, T, K).
        value: shape (B, H, T, K).
        mask: bool, True where a query may attend; broadcastable to (B, H, S, T).
        bias: added to the scaled scores; broadcastable to (B, H, S, T).
        dropout: probability with which a weight is dropped; 0 outside training.
        need_weights: whether to return the weights.

    Returns:
        The mixed values, shape (B, H, S, K), and the weights before dropout, shape (B, H, S, T),
        or None if they were not asked for.
    """
    offset = bias
    if mask is not None:
        zero = torch.zeros((), dtype=query.dtype, device=query.device) if bias is None else bias
        offset = zero.masked_fill(~mask, -math.inf)  # the one line that applies a mask
    if need_weights or (dropout > 0 and query.device.type == "cpu"):
        mixed, weights = _plain(query, key, value, offset, dropout)
        return mixed, weights if need_weights else None
    return F.scaled_dot_product_attention(query, key, value, offset, dropout), None


def _plain(
    query: Tensor, key: Tensor, value: Tensor, offset: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)  # (B, H, S, T)
    if offset is not None:
        scores = scores + offset
        # A row of nothing but -inf has no softmax: give it any finite row, and zeros after it.
        empty = torch.isneginf(scores).all(-1, keepdim=True)  # (B, H, S, 1)
        weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    else:
        weights = scores.softmax(-1)
    return drop(weights, dropout).to(value.dtype) @ value, weights


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
