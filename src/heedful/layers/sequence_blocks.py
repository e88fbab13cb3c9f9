"""The block of an encoder or a decoder as in Vaswani et al. 2017, post-norm or pre-norm.

The attributes are named so that a state dict has the names of the reference's Marian models.

Shapes: B batch, H heads, S query length, T key length, K head width, E length of the encoder's
output, D model width.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from heedful.layers.attention import Mixed, attend
from heedful.layers.cache import KeyValue
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS

Remember = Callable[[KeyValue], KeyValue]
"""The keys and values of new tokens to those of all that they may attend to."""


class MultiHeadAttention(nn.Module):
    """Multi-head attention with its output projection (section 3.2.2).

    Args:
        width: D.
        num_heads: H.
        dropout: probability with which an attention weight is dropped in training.
    """

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def keys_and_values(self, source: Tensor) -> KeyValue:
        """Return what queries attend to in ``source``, shape (B, T, D)."""
        return KeyValue(self._split(self.k_proj(source)), self._split(self.v_proj(source)))

    def forward(
        self, hidden: Tensor, memory: KeyValue, mask: Tensor | None, *, need_weights: bool
    ) -> Mixed:
        """Return mixed values of shape (B, S, D).

        Args:
            hidden: what asks. Shape (B, S, D).
            memory: what it attends to: ``keys_and_values``.
            mask: bool, broadcastable to (B, H, S, T); None lets every query attend to all.
            need_weights: whether to return the weights.
        """
        mixed, weights, kernel = attend(
            self._split(self.q_proj(hidden)),
            *memory,
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return Mixed(self.out_proj(mixed.transpose(1, 2).flatten(2)), weights, kernel)

    def _split(self, hidden: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        return hidden.view(batch, length, self.num_heads, -1).transpose(1, 2)  # (B, H, S, K)


class SequenceBlockOutput(NamedTuple):
    """What a block returns."""

    hidden: Tensor
    """Shape (B, S, D)."""
    weights: Tensor | None
    """The attention weights, if asked for. Shape (B, H, S, T)."""
    cross_weights: Tensor | None
    """Those of the cross-attention, if asked for and there is one. Shape (B, H, S, E)."""


class SequenceBlock(nn.Module):
    """Attention to itself, in a decoder to an encoder, then feed-forward (figure 1).

    Args:
        width: D.
        num_heads: H.
        inner_width: width inside the feed-forward part.
        activation: a name in ``feedforward.ACTIVATIONS``.
        dropout: probability with which a value that a part adds is dropped in training.
        attention_dropout: the same for an attention weight.
        activation_dropout: the same inside the feed-forward part.
        normalize_before: whether each part normalises what it reads, so that residuals are added up
            from the first block to the last untouched (Xiong et al. 2020), rather than what it and
            its residual add up to, as in the paper.
        cross_attention: whether it attends to an encoder.
    """

    def __init__(
        self,
        *,
        width: int,
        num_heads: int,
        inner_width: int,
        activation: str,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
        normalize_before: bool,
        cross_attention: bool,
    ) -> None:
        super().__init__()
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(width, num_heads, attention_dropout)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if cross_attention:
            self.encoder_attn = MultiHeadAttention(width, num_heads, attention_dropout)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner_width)
        self.fc2 = nn.Linear(inner_width, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.activation = ACTIVATIONS[activation]
        self.activation_dropout = Dropout(activation_dropout)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor | None,
        *,
        cross: KeyValue | None = None,
        cross_mask: Tensor | None = None,
        remember: Remember | None = None,
        need_weights: bool = False,
    ) -> SequenceBlockOutput:
        """Compute the block.

        Args:
            hidden: shape (B, S, D).
            mask: bool, broadcastable to (B, H, S, T); None lets every token attend to all.
            cross: what cross-attention attends to: ``encoder_attn.keys_and_values``.
            cross_mask: like ``mask``, broadcastable to (B, H, S, E).
            remember: gives the tokens what they attend to besides each other; None if nothing.
            need_weights: whether to return the attention weights.
        """
        norm = self.self_attn_layer_norm
        inner = self._read(hidden, norm)
        own = self.self_attn.keys_and_values(inner)
        if remember is not None:
            own = remember(own)
        mixed, weights, _ = self.self_attn(inner, own, mask, need_weights=need_weights)
        hidden = self._add(hidden, mixed, norm)
        cross_weights = None
        if cross is not None:
            norm = self.encoder_attn_layer_norm
            inner = self._read(hidden, norm)
            mixed, cross_weights, _ = self.encoder_attn(
                inner, cross, cross_mask, need_weights=need_weights
            )
            hidden = self._add(hidden, mixed, norm)
        norm = self.final_layer_norm
        inner = self.activation(self.fc1(self._read(hidden, norm)))
        hidden = self._add(hidden, self.fc2(self.activation_dropout(inner)), norm)
        return SequenceBlockOutput(hidden, weights, cross_weights)

    def _read(self, hidden: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return what a part reads."""
        return norm(hidden) if self.normalize_before else hidden

    def _add(self, hidden: Tensor, added: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return what comes after a part that adds something."""
        hidden = hidden + self.dropout(added)
        return hidden if self.normalize_before else norm(hidden)
