"""One block: attention to itself, in a decoder perhaps to an encoder, then feed-forward.

Each part is followed by add-and-normalise. The attributes are named so that a state dict has the
reference's names.

Shapes: B batch, H heads, T length with what is cached, N length without it, S length of what is
computed, E length of the encoder's output, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.attention import Mixed
from heedful.layers.cache import BlockCache, KeyValue
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import Intermediate
from heedful.layers.multihead import MultiHead


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What all blocks are told in one call."""

    mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, T); None lets every query attend to all."""
    encoded: Tensor | None = None
    """What cross-attention attends to, where it is not cached. Shape (B, E, D)."""
    cross_mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, E)."""
    need_weights: bool = False
    """Whether to return the attention weights."""
    need_cache: bool = False
    """Whether to return what later calls can go on from."""


class BlockOutput(NamedTuple):
    """What a block returns."""

    hidden: Tensor
    """Shape (B, S, D)."""
    weights: Tensor | None
    """The attention weights, if asked for. Shape (B, H, S, T)."""
    cross_weights: Tensor | None
    """Those of the cross-attention, if asked for and there is one. Shape (B, H, S, E)."""
    cache: BlockCache | None
    """What a later call can go on from, if asked for."""
    kernels: tuple[str, ...]
    """Which kernel the attention, and then the cross-attention if there is one, ran on."""


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
    """Multi-head attention with its output projection and residual.

    Args:
        width: D.
        head_width: width of a head.
        heads: see ``MultiHead``.
        eps: added to the variance by the layer normalisation.
        attention_dropout: probability with which an attention weight is dropped in training.
        dropout: the same for the values of the output.
        num_positions: see ``MultiHead``.
        with_key: the same.
    """

    def __init__(
        self,
        *,
        width: int,
        head_width: int,
        heads: Sequence[int],
        eps: float,
        attention_dropout: float,
        dropout: float,
        num_positions: int = 0,
        with_key: bool = False,
    ) -> None:
        super().__init__()
        self.self = MultiHead(
            width,
            head_width,
            heads,
            attention_dropout,
            num_positions=num_positions,
            with_key=with_key,
        )
        self.output = AddNorm(len(heads) * head_width, width, eps, dropout)

    def forward(
        self,
        hidden: Tensor,
        memory: KeyValue,
        *,
        mask: Tensor | None,
        head_mask: Tensor | None,
        need_weights: bool,
        start: int = 0,
    ) -> Mixed:
        """Return values of shape (B, S, D); see ``MultiHead`` for the arguments."""
        mixed, weights, kernel = self.self(
            hidden,
            memory,
            mask=mask,
            head_mask=head_mask,
            need_weights=need_weights,
            start=start,
        )
        return Mixed(self.output(mixed, hidden), weights, kernel)


class Block(nn.Module):
    """One block of an encoder or a decoder.

    Args:
        width: D.
        num_heads: H.
        inner_width: width inside the feed-forward part.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisations.
        attention_dropout: probability with which an attention weight is dropped in training.
        dropout: the same for the values that each part adds.
        pruned_heads: heads that the attention to itself has not.
        num_positions: number of relative positions, or 0 if there are none.
        with_key: whether keys meet the relative positions as queries do.
        cross_attention: whether it attends to an encoder.
        chunk: how many tokens go through the feed-forward part at once; 0 for all.
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
        pruned_heads: Sequence[int] = (),
        num_positions: int = 0,
        with_key: bool = False,
        cross_attention: bool = False,
        chunk: int = 0,
    ) -> None:
        super().__init__()
        head_width = width // num_heads
        self.chunk = chunk
        self.attention = Attention(
            width=width,
            head_width=head_width,
            heads=[head for head in range(num_heads) if head not in pruned_heads],
            eps=eps,
            attention_dropout=attention_dropout,
            dropout=dropout,
            num_positions=num_positions,
            with_key=with_key,
        )
        if cross_attention:
            self.crossattention = Attention(
                width=width,
                head_width=head_width,
                heads=range(num_heads),
                eps=eps,
                attention_dropout=attention_dropout,
                dropout=dropout,
            )
        self.intermediate = Intermediate(width, inner_width, activation)
        self.output = AddNorm(inner_width, width, eps, dropout)

    def forward(
        self,
        hidden: Tensor,
        context: Context,
        *,
        head_mask: Tensor | None = None,
        past: BlockCache | None = None,
        only_first: bool = False,
    ) -> BlockOutput:
        """Compute the block.

        Args:
            hidden: shape (B, N, D).
            context: what is the same for all blocks.
            head_mask: what each head's output is multiplied by. Shape (H,).
            past: what an earlier call returned; ``hidden`` goes on from there.
            only_first: whether to compute the first token alone: S is 1, else N.
        """
        own = self.attention.self.keys_and_values(hidden)
        start = 0
        if past is not None:
            start = past.own.key.shape[2]
            own = past.own.extend(own)
        mask, cross_mask = context.mask, context.cross_mask
        if only_first:
            hidden = hidden[:, :1]
            mask, cross_mask = _first_query(mask), _first_query(cross_mask)
        hidden, weights, kernel = self.attention(
            hidden,
            own,
            mask=mask,
            head_mask=head_mask,
            need_weights=context.need_weights,
            start=start,
        )
        kernels, cross_weights = [kernel], None
        cross = None if past is None else past.cross
        if cross is None and context.encoded is not None:
            cross = self.crossattention.self.keys_and_values(context.encoded)
        if cross is not None:
            hidden, cross_weights, kernel = self.crossattention(
                hidden,
                cross,
                mask=cross_mask,
                head_mask=head_mask,
                need_weights=context.need_weights,
            )
            kernels.append(kernel)
        # Not kept without need: checkpointing could not free it.
        cache = BlockCache(own=own, cross=cross) if context.need_cache else None
        return BlockOutput(
            self._feed_forward(hidden), weights, cross_weights, cache, tuple(kernels)
        )

    def _feed_forward(self, hidden: Tensor) -> Tensor:
        if not 0 < self.chunk < hidden.shape[1]:
            whole: Tensor = self.output(self.intermediate(hidden), hidden)
            return whole
        parts = torch.split(hidden, self.chunk, dim=1)
        return torch.cat([self.output(self.intermediate(part), part) for part in parts], dim=1)


def _first_query(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask[..., :1, :]
