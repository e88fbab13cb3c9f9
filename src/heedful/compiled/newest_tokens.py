"""Attention and output scores of the newest tokens of a search's hypotheses.

Attention of few queries to many keys uses batched matrix products: for so few queries, launching
torch's fused kernel would take longer than the computation.

Shapes: B items, N hypotheses, W largest number of hypotheses per item, T keys, H heads, K head
width, D model width, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.linear import Linear
from heedful.layers.tree_cache import rounded_up

_MASKED = -1e30
"""Added to the score of a masked key, to make its weight 0. Empty cells of the grid may attend to
no key, and with an infinity their weights would be NaN."""


class Biases:
    """The additive mask of the scores, shared by all blocks.

    Args:
        mask: bool, shape (B, W or 1, T); None lets every query attend to all keys.
        dtype: dtype of the scores.
    """

    def __init__(self, mask: Tensor | None, dtype: torch.dtype) -> None:
        self.bias: Tensor | None = None
        if mask is not None and not bool(mask.all()):
            self.bias = torch.where(mask, 0.0, _MASKED).to(dtype)
        self.by_heads: dict[int, Tensor] = {}

    def of(self, heads: int) -> Tensor | None:
        """Return the additive mask repeated for each head, or None. Shape (B * H, W or 1, T)."""
        if self.bias is None:
            return None
        if heads not in self.by_heads:
            self.by_heads[heads] = self.bias.repeat_interleave(heads, 0)
        return self.by_heads[heads]


def attend_newest(
    query: Tensor, memory: Tensor, biases: Biases, head_width: int
) -> tuple[Tensor, Tensor]:
    """Return weighted values, shape (B * W, H * K), and weights, shape (B, H, W, T).

    Args:
        query: shape (B * W, H * K).
        memory: keys and values. Shape (2, B, H, T, K).
        biases: additive mask of the scores.
        head_width: K.
    """
    _, batch, heads, _, _ = memory.shape
    queries = query.view(batch, -1, heads, head_width).transpose(1, 2)  # (B, H, W, K)
    queries = queries.reshape(batch * heads, -1, head_width)
    key, value = memory.flatten(1, 2)  # (B * H, T, K)
    bias, scale = biases.of(heads), 1 / math.sqrt(head_width)
    if bias is None:
        scores = torch.baddbmm(queries.new_empty(1), queries, key.mT, beta=0, alpha=scale)
    else:
        scores = torch.baddbmm(bias, queries, key.mT, alpha=scale)
    weights = scores.softmax(-1)
    mixed = torch.bmm(weights, value).view(batch, heads, -1, head_width)
    rows = mixed.transpose(1, 2).reshape(len(query), -1)
    return rows, weights.view(*mixed.shape[:3], -1)


def score_newest(score: Linear, hidden: Tensor) -> Tensor:
    """Return the score of each next token for each hypothesis. Shape (N, V).

    Args:
        score: the output layer.
        hidden: shape (N, D).
    """
    num_rows = len(hidden)
    rows = F.pad(hidden, (0, 0, 0, rounded_up(num_rows) - num_rows))
    return score(rows)[:num_rows]
