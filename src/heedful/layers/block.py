"""One block: attention to itself, in a decoder perhaps to an encoder, then feed-forward.

Each part adds to what it reads, and normalises: the sum, as in Vaswani et al. 2017 (post-norm), or
what it reads, so that residuals are added up from the first block to the last untouched (pre-norm,
Xiong et al. 2020). The attributes are named so that a state dict has the names of the reference's
BERT.

Shapes: B batch, H heads, T length with what is cached, N length without it, S length of what is
computed, E length of the encoder's output, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers import rows
from heedful.layers.attention import Mixed
from heedful.layers.blocksparse import BlockSparse, Texts
from heedful.layers.cache import BlockCache, KeyValue, Past
from heedful.layers.disentangled import Disentangled
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import Intermediate
from heedful.layers.linear import Linear
from heedful.layers.multihead import BIASES, MultiHead
from heedful.layers.packing import Packing
from heedful.layers.positions import Positions, Relations


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockOptions:
    """What the blocks of a stack have in common."""

    width: int
    """D."""
    head_width: int
    inner_width: int
    """Width inside the feed-forward part."""
    activation: str
    """A name in ``feedforward.ACTIVATIONS``."""
    dropout: float
    """Probability with which a value that a part adds is dropped in training."""
    attention_output_dropout: float | None = None
    """The same of what attention adds; None takes ``dropout``."""
    attention_dropout: float
    """The same of an attention weight."""
    activation_dropout: float = 0.0
    """The same inside the feed-forward part."""
    eps: float = 1e-5
    """Added to the variance by the layer normalisations."""
    norm_before: bool = False
    """Whether each part normalises what it reads, and not what it and its residual add up to."""
    attention_biases: frozenset[str] = BIASES
    """Which linear layers of attention have biases; some of ``multihead.BIASES``."""
    chunk: int = 0
    """How many tokens go through the feed-forward part at once; 0 for all."""
    talking: bool = False
    """Whether the heads of attention to itself mix their scores and weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What all blocks are told in one call."""

    mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, T); None lets every query attend to all."""
    bias: Tensor | None = None
    """Added to the scaled scores; broadcastable to (B, H, N, T), of 4 dimensions. H are all heads,
    those that were pruned, too."""
    distances: Tensor | None = None
    """The vectors of the distances from 1 - N to N - 1, for ``Disentangled``. Shape (2 * N - 1,
    D)."""
    encoded: Tensor | None = None
    """What cross-attention attends to, where it is not cached. Shape (B, E, D)."""
    cross_mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, E)."""
    relations: Relations | None = None
    """What the positions of each block are told of the tokens, if they ask for it."""
    attended: int | None = None
    """How many of the N tokens are attended to: the first; None for all. The others only ask."""
    need_cache: bool = False
    """Whether to return what later calls can go on from."""
    packing: Packing | None = None
    """Of the hidden states, where they are packed: their shape is then (1, tokens, D). If it has
    bounds, ``mask`` and ``cross_mask`` are not read: texts are all that may be kept apart."""
    encoded_packing: Packing | None = None
    """The same of ``encoded``."""
    causal: bool = False
    """Whether a token may attend to none after it, where ``mask`` is not read."""
    texts: Texts | None = None
    """Where the texts stand, for attention that is sparse."""


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


class Residual(nn.Module):
    """How a part ends: project back to the model width, drop, add what the part read, normalise.

    Args:
        inner_width: width of what comes in.
        options: of the block.
        dropout: probability with which a value that is added is dropped; None takes the block's.
        bias: whether the projection has a bias.
    """

    def __init__(
        self,
        inner_width: int,
        options: BlockOptions,
        dropout: float | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.norm_before = options.norm_before
        self.dense = Linear(inner_width, options.width, bias)
        self.LayerNorm = nn.LayerNorm(options.width, eps=options.eps)
        self.dropout = Dropout(options.dropout if dropout is None else dropout)

    def source(self, hidden: Tensor) -> Tensor:
        """Return what the part computes from: ``hidden``, normalised if that comes before."""
        return self.LayerNorm(hidden) if self.norm_before else hidden

    def forward(self, inner: Tensor, hidden: Tensor) -> Tensor:
        """Return shape (B, S, D).

        Args:
            inner: what the part computed. Shape (B, S, inner width).
            hidden: what it read. Shape (B, S, D).
        """
        if self.fits(inner, hidden):
            dropout = self.dropout.probability if self.training else 0.0
            return rows.end(inner, self.dense, hidden, self.LayerNorm, dropout=dropout)
        return self.end(self.dense(inner), hidden)

    def fits(self, inner: Tensor, hidden: Tensor) -> bool:
        """Tell whether all of it is one kernel after the product; see ``rows.py``."""
        return not self.norm_before and rows.fits(self.dense, self.LayerNorm, inner, hidden)

    def end(self, projected: Tensor, hidden: Tensor, *, recomputed: bool = False) -> Tensor:
        """Return the same for what has been projected to shape (B, S, D).

        If it is ``recomputed``, for which see ``Block``, the sum is returned as it is.
        """
        added: Tensor = self.dropout(projected, keep_bits=not recomputed) + hidden
        return added if self.norm_before or recomputed else self.LayerNorm(added)


class Attention(nn.Module):
    """Multi-head attention with its output projection and residual.

    Args:
        options: of the block.
        heads: see ``MultiHead``.
        positions: the same.
        score_factor: the same.
        sparse: the same.
        disentangled: the same.
        talking: the same.
    """

    def __init__(
        self,
        options: BlockOptions,
        heads: Sequence[int],
        positions: Positions | None = None,
        score_factor: float = 1.0,
        sparse: BlockSparse | None = None,
        disentangled: Disentangled | None = None,
        *,
        talking: bool = False,
    ) -> None:
        super().__init__()
        self.self = MultiHead(
            options.width,
            options.head_width,
            heads,
            options.attention_dropout,
            positions,
            score_factor,
            sparse,
            disentangled,
            biases=options.attention_biases,
            talking=talking,
        )
        self.output = Residual(
            len(heads) * options.head_width,
            options,
            options.attention_output_dropout,
            bias="output" in options.attention_biases,
        )

    def forward(
        self,
        hidden: Tensor,
        source: Tensor,
        memory: KeyValue,
        *,
        query: Tensor | None = None,
        mask: Tensor | None,
        head_mask: Tensor | None,
        need_weights: bool,
        bias: Tensor | None = None,
        distances: Tensor | None = None,
        start: int = 0,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
        causal: bool = False,
        texts: Texts | None = None,
        relations: Relations | None = None,
    ) -> Mixed:
        """Return hidden states of shape (B, S, D).

        Args:
            hidden: what the part reads. Shape (B, S, D).
            source: ``output.source`` of it.
            memory: see ``MultiHead`` for this and the rest.
            query: the same.
            mask: the same.
            head_mask: the same.
            need_weights: the same.
            bias: the same.
            distances: the same.
            start: the same.
            packing: the same.
            memory_packing: the same.
            causal: the same.
            texts: the same.
            relations: the same.
        """
        mixed, weights, kernel = self.self(
            source,
            memory,
            query=query,
            mask=mask,
            head_mask=head_mask,
            need_weights=need_weights,
            bias=bias,
            distances=distances,
            start=start,
            packing=packing,
            memory_packing=memory_packing,
            causal=causal,
            texts=texts,
            relations=relations,
        )
        return Mixed(self.output(mixed, hidden), weights, kernel)


class Block(nn.Module):
    """One block of an encoder or a decoder.

    Args:
        options: what it has in common with the others.
        heads: the numbers of the heads of its attention to itself: 0, 1, ..., less those that were
            pruned.
        cross_heads: the same of its attention to an encoder; None where it has none.
        positions: how positions take part in its attention to itself, if they do.
        score_factor: what the scaled scores are multiplied by.
        sparse: how its attention to itself reads long texts, if not every token by every token.
        disentangled: what distances add to the scores of its attention to itself, if they do.
    """

    def __init__(
        self,
        options: BlockOptions,
        *,
        heads: Sequence[int],
        cross_heads: Sequence[int] | None = None,
        positions: Positions | None = None,
        score_factor: float = 1.0,
        sparse: BlockSparse | None = None,
        disentangled: Disentangled | None = None,
    ) -> None:
        super().__init__()
        self.chunk = options.chunk
        self.attention = Attention(
            options, heads, positions, score_factor, sparse, disentangled, talking=options.talking
        )
        if cross_heads is not None:
            self.crossattention = Attention(options, cross_heads, None, score_factor)
        self.intermediate = Intermediate(
            options.width, options.inner_width, options.activation, options.activation_dropout
        )
        self.output = Residual(options.inner_width, options)

    @property
    def last_norm(self) -> nn.LayerNorm | None:
        """What normalises the sum that it ends with; None in a pre-norm block."""
        return None if self.output.norm_before else self.output.LayerNorm

    @property
    def attends_to_texts(self) -> bool:
        """Whether all its attention can do without padding; see ``MultiHead``."""
        cross = getattr(self, "crossattention", None)
        parts = [self.attention] if cross is None else [self.attention, cross]
        return all(part.self.attends_to_texts for part in parts)

    def forward(
        self,
        hidden: Tensor,
        context: Context,
        *,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        past: Past | None = None,
        memory: Tensor | None = None,
        need_weights: bool = False,
        only_first: bool = False,
        asking: Tensor | None = None,
        recomputed: bool = False,
    ) -> BlockOutput:
        """Compute the block.

        Args:
            hidden: shape (B, N, D).
            context: what is the same for all blocks.
            head_mask: what each head's output is multiplied by. Shape (H,).
            cross_head_mask: the same for the cross-attention.
            past: what has been computed before; ``hidden`` goes on from there.
            memory: what the block read of earlier tokens, which are attended to, too, but do not
                ask. Shape (B, M, D).
            need_weights: whether to return the attention weights.
            only_first: whether to compute the first token alone: S is 1, else N.
            asking: what is computed in the place of ``hidden``, which it attends to; None for that
                itself. Shape (B, N, D).
            recomputed: whether the backward pass computes the block again. A post-norm block then
                returns the sum that it ends with before it is normalised (see ``Stack``), and
                nothing that comes after the inner states is kept.
        """
        source = self.attention.output.source(hidden)
        alone = past is None and memory is None and asking is None and not only_first
        together = self._together(source, context) if alone else None
        query, (keys, start) = together or (None, self._keys(source, context, past, memory))
        packing = context.packing
        if asking is not None:
            hidden, source = asking, self.attention.output.source(asking)
        mask, cross_mask, bias = context.mask, context.cross_mask, context.bias
        if only_first:
            hidden, source = _first(hidden, packing), _first(source, packing)
            packing = None
            mask, cross_mask = _first_query(mask), _first_query(cross_mask)
            bias = _first_query(bias)
        hidden, weights, kernel = self.attention(
            hidden,
            source,
            keys,
            query=query,
            mask=mask,
            head_mask=head_mask,
            need_weights=need_weights,
            bias=bias,
            distances=context.distances,
            start=start,
            packing=packing,
            memory_packing=context.packing,
            causal=context.causal,
            texts=context.texts,
            relations=context.relations,
        )
        kernels, cross_weights = [kernel], None
        cross = self._cross_keys(context, past)
        if cross is not None:
            hidden, cross_weights, kernel = self.crossattention(
                hidden,
                self.crossattention.output.source(hidden),
                cross,
                mask=cross_mask,
                head_mask=cross_head_mask,
                need_weights=need_weights,
                packing=packing,
                memory_packing=context.encoded_packing,
            )
            kernels.append(kernel)
        cache = None
        if context.need_cache:  # not kept without need: checkpointing could not free it
            cache = BlockCache(self_attention=keys, cross_attention=cross)
        hidden = self._feed_forward(hidden, recomputed=recomputed)
        return BlockOutput(hidden, weights, cross_weights, cache, tuple(kernels))

    def _together(
        self, source: Tensor, context: Context
    ) -> tuple[Tensor, tuple[KeyValue, int]] | None:
        """Return what asks, and ``_keys``, where one product gives both and no keys are kept."""
        if context.attended is not None or context.need_cache:
            return None
        together = self.attention.self.together(source, context.packing)
        return None if together is None else (together[0], (together[1], 0))

    def _keys(
        self, source: Tensor, context: Context, past: Past | None, memory: Tensor | None
    ) -> tuple[KeyValue, int]:
        """Return what is attended to, and how much of that stands before the first token."""
        start = 0 if past is None else past.length
        attended = source if context.attended is None else source[:, : context.attended]
        if memory is not None:
            attended = torch.cat([self.attention.output.source(memory), attended], 1)
        heads = self.attention.self
        keys = heads.keys_and_values(attended, start=start, packing=context.packing)
        if past is not None:
            return past.extend(keys), start
        return keys, start if memory is None else memory.shape[1]

    def _cross_keys(self, context: Context, past: Past | None) -> KeyValue | None:
        """Return what is attended to in an encoder's output, if anything is."""
        cross = None if past is None else past.cross_attention
        if cross is not None or context.encoded is None:
            return cross
        heads = self.crossattention.self
        return heads.keys_and_values(context.encoded, packing=context.encoded_packing)

    def _feed_forward(self, hidden: Tensor, *, recomputed: bool) -> Tensor:
        at_once = partial(self._feed_forward_at_once, recomputed=recomputed)
        if not 0 < self.chunk < hidden.shape[1]:
            return at_once(hidden)
        return torch.cat([at_once(part) for part in torch.split(hidden, self.chunk, dim=1)], dim=1)

    def _feed_forward_at_once(self, hidden: Tensor, *, recomputed: bool) -> Tensor:
        end = self.output
        source = end.source(hidden)
        if not recomputed and end.fits(source, hidden):
            ended: Tensor = end(self.intermediate(source), hidden)
            return ended
        projected = self.intermediate.project(source, end.dense, recomputed=recomputed)
        return end.end(projected, hidden, recomputed=recomputed)


def _first(hidden: Tensor, packing: Packing | None) -> Tensor:
    return hidden[:, :1] if packing is None else packing.first(hidden)


def _first_query(scores: Tensor | None) -> Tensor | None:
    return None if scores is None else scores[..., :1, :]
