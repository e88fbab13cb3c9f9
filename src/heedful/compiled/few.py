"""The newest tokens of a search's hypotheses, compiled: their attention, and what follows them.

Attention of few queries to many keys is a few batched products: torch's kernel would take longer to
start than to compute so few queries.

Shapes: B items, N hypotheses, W most hypotheses of an item, T keys, H heads, K head width, D model
width, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.linear import Linear
from heedful.layers.tree import rounded_up

_NEVER = -1e30
"""Added to the score of what may not be attended to: its weight is 0. Cells of the grid without a
hypothesis may attend to nothing, and an infinity would make theirs no numbers."""


class Biases:
    """What is added to the scores of all blocks, so that nobody attends where a mask forbids it.

    Args:
        mask: bool, shape (B, W or 1, T); None lets everyone attend to all.
        dtype: of the scores.
    """

    def __init__(self, mask: Tensor | None, dtype: torch.dtype) -> None:
        self.bias: Tensor | None = None
        if mask is not None and not bool(mask.all()):
            self.bias = torch.where(mask, 0.0, _NEVER).to(dtype)
        self.by_heads: dict[int, Tensor] = {}

    def of(self, heads: int) -> Tensor | None:
        """Return it once for each head. Shape (B * H, W or 1, T)."""
        if self.bias is None:
            return None
        if heads not in self.by_heads:
            self.by_heads[heads] = self.bias.repeat_interleave(heads, 0)
        return self.by_heads[heads]


def attend_few(
    query: Tensor, memory: Tensor, biases: Biases, head_width: int
) -> tuple[Tensor, Tensor]:
    """Return mixed values, shape (B * W, H * K), and weights, shape (B, H, W, T).

    Args:
        query: shape (B * W, H * K).
        memory: keys and values. Shape (2, B, H, T, K).
        biases: added to the scores.
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


def score_few(score: Linear, hidden: Tensor) -> Tensor:
    """Return the score of each next token for each hypothesis. Shape (N, V).

    Args:
        score: the layer that scores.
        hidden: shape (N, D).
    """
    count = len(hidden)
    rows = F.pad(hidden, (0, 0, 0, rounded_up(count) - count))
    return score(rows)[:count]
