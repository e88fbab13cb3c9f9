"""One encoder block: attention, then feed-forward, each followed by add-and-normalise.

The attributes are named so that a state dict has the reference's names.

Shapes: B batch, H heads, T length, S length of what is computed, D model width.
"""

from torch import Tensor, nn

from heedful.layers.attention import SelfAttention
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import Intermediate


class AddNorm(nn.Module):
    """Project back to the model width, drop, add the residual, normalise.

    Args:
        inner_width: width of what comes in.
        width: D.
        eps: added to the variance by the layer normalisation.
        dropout: probability with which a value is dropped in training.
    """

    def __init__(self, inner_width: int, width: int, eps: float, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner_width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, inner: Tensor, residual: Tensor) -> Tensor:
        """Return shape (B, S, D) for shape (B, S, inner width) and the residual (B, S, D)."""
        normal: Tensor = self.LayerNorm(self.dropout(self.dense(inner)) + residual)
        return normal


class Attention(nn.Module):
    """Self-attention with its output projection and residual.

    Args:
        width: D.
        num_heads: H.
        eps: added to the variance by the layer normalisation.
        attention_dropout: probability with which an attention weight is dropped in training.
        dropout: the same for the values of the output.
    """

    def __init__(
        self, *, width: int, num_heads: int, eps: float, attention_dropout: float, dropout: float
    ) -> None:
        super().__init__()
        self.self = SelfAttention(width, num_heads, attention_dropout)
        self.output = AddNorm(width, width, eps, dropout)

    def forward(
        self, hidden: Tensor, mask: Tensor | None, need_weights: bool, only_first: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return shape (B, S, D), and the weights, shape (B, H, S, T), or None; see ``Block``."""
        mixed, weights = self.self(hidden, mask, need_weights, only_first)
        return self.output(mixed, hidden[:, : mixed.shape[1]]), weights


class Block(nn.Module):
    """One encoder block.

    Args:
        width: D.
        num_heads: H.
        inner_width: width inside the feed-forward half.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisations.
        attention_dropout: probability with which an attention weight is dropped in training.
        dropout: the same for the values that each half adds.
    """

    def __init__(
        self,
        *,
        width: int,
        num_heads: int,
        inner_width: int,
        activation: str,
        eps: float,
        attention_dropout: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = Attention(
            width=width,
            num_heads=num_heads,
            eps=eps,
            attention_dropout=attention_dropout,
            dropout=dropout,
        )
        self.intermediate = Intermediate(width, inner_width, activation)
        self.output = AddNorm(inner_width, width, eps, dropout)

    def forward(
        self, hidden: Tensor, mask: Tensor | None, need_weights: bool, only_first: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return shape (B, S, D), and the weights, shape (B, H, S, T), or None.

        Args:
            hidden: shape (B, T, D).
            mask: bool, broadcastable to (B, H, T, T); None lets every query attend to all.
            need_weights: whether to return the attention weights.
            only_first: whether to compute the first token alone: S is 1, else T.
        """
        attended, weights = self.attention(hidden, mask, need_weights, only_first)
        return self.output(self.intermediate(attended), attended), weights
