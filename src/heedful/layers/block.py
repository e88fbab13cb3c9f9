"""One Transformer block: self-attention, optional cross-attention, then feed-forward.

Each sublayer has a residual connection and a layer normalisation. Post-norm normalises the sum
(Vaswani et al. 2017). Pre-norm normalises the input of the sublayer, so the residual stream passes
through all blocks unnormalised (Xiong et al. 2020). Attribute names match the state dict of the
reference's BERT.

Shapes: B batch, H heads, T key length with the cache, N input length without the cache, S output
length, E length of the encoder's output, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.attention import AttentionOutput, completed
from heedful.layers.blocksparse import BlockSparse, Texts
from heedful.layers.cache import BlockCache, KeyValue, KVCache
from heedful.layers.disentangled import Disentangled
from heedful.layers.feedforward import Intermediate
from heedful.layers.linear import runs_own_forward
from heedful.layers.multihead import MultiHead
from heedful.layers.packing import Packing
from heedful.layers.positions import Positions, Relations
from heedful.layers.residual import BlockOptions, Residual, sublayer_input


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Inputs of one call that are the same for all blocks."""

    mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, T); None lets every query attend to all keys."""
    bias: Tensor | None = None
    """Added to the scaled scores; broadcastable to (B, H, N, T), with 4 dimensions. H counts all
    heads, including pruned ones."""
    distances: Tensor | None = None
    """Embeddings of the distances 1 - N to N - 1, for ``Disentangled``. Shape (2 * N - 1, D)."""
    encoder_hidden_states: Tensor | None = None
    """The encoder's output for cross-attention, if not cached. Shape (B, E, D)."""
    cross_mask: Tensor | None = None
    """Bool, broadcastable to (B, H, N, E)."""
    relations: Relations | None = None
    """Relations between the tokens, for position modules that need them."""
    num_keys: int | None = None
    """Number of leading tokens, of N, that serve as keys; None for all. The others only query."""
    need_cache: bool = False
    """Whether to return the KV cache for later calls."""
    packing: Packing | None = None
    """Packing of the hidden states if they are packed: their shape is then (1, tokens, D). If it
    has bounds, ``mask`` and ``cross_mask`` are not read: only the texts are kept separate."""
    encoder_packing: Packing | None = None
    """Packing of ``encoder_hidden_states`` if it is packed."""
    causal: bool = False
    """Whether attention is causal where ``mask`` is not read."""
    texts: Texts | None = None
    """The texts in the batch, for sparse attention."""


class BlockOutput(NamedTuple):
    """Output of a block."""

    hidden: Tensor
    """Shape (B, S, D)."""
    weights: Tensor | None
    """The attention weights, if requested. Shape (B, H, S, T)."""
    cross_weights: Tensor | None
    """The cross-attention weights, if requested and present. Shape (B, H, S, E)."""
    cache: BlockCache | None
    """The KV cache for later calls, if requested."""
    kernels: tuple[str, ...]
    """The kernels of the self-attention and, if present, the cross-attention."""


class Attention(nn.Module):
    """Multi-head attention with its output projection and residual.

    Args:
        options: options of the block.
        heads: see ``MultiHead``.
        positions: see ``MultiHead``.
        score_factor: see ``MultiHead``.
        sparse: see ``MultiHead``.
        disentangled: see ``MultiHead``.
        talking: see ``MultiHead``.
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
    ) -> AttentionOutput:
        """Return hidden states of shape (B, S, D).

        Args:
            hidden: the residual. Shape (B, S, D).
            source: ``output.pre_norm`` of ``hidden``.
            memory: see ``MultiHead.forward``.
            query: see ``MultiHead.forward``.
            mask: see ``MultiHead.forward``.
            head_mask: see ``MultiHead.forward``.
            need_weights: see ``MultiHead.forward``.
            bias: see ``MultiHead.forward``.
            distances: see ``MultiHead.forward``.
            start: see ``MultiHead.forward``.
            packing: see ``MultiHead.forward``.
            memory_packing: see ``MultiHead.forward``.
            causal: see ``MultiHead.forward``.
            texts: see ``MultiHead.forward``.
            relations: see ``MultiHead.forward``.
        """
        attended = self.self(
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
        mixed, weights, kernel = completed(attended)
        return AttentionOutput(self.output(mixed, hidden), weights, kernel)


class Block(nn.Module):
    """One block of an encoder or a decoder.

    Args:
        options: options shared by all blocks.
        heads: indices of the self-attention heads: 0, 1, ..., without the pruned ones.
        cross_heads: indices of the cross-attention heads; None for a block without
            cross-attention.
        positions: position module of self-attention, if any.
        score_factor: factor of the scaled scores.
        sparse: sparse self-attention for long texts; None for full attention.
        disentangled: disentangled attention to distances in self-attention, if any.
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
        self.chunk, self.is_pre_norm = options.chunk_size, options.is_pre_norm
        kind = (positions, score_factor, sparse, disentangled)
        self.attention = Attention(options, heads, *kind, talking=options.talking_heads)
        if cross_heads is not None:
            self.crossattention = Attention(options, cross_heads, None, score_factor)
        self.intermediate = Intermediate(
            options.width, options.inner_width, options.activation, options.activation_dropout
        )
        self.output = Residual(options.inner_width, options)

    @property
    def last_norm(self) -> nn.LayerNorm | None:
        """The normalisation of the block's final sum, which a `Stack` may defer.

        None in a pre-norm block, or if a user's layers or hooks end the block.
        """
        own = not self.is_pre_norm and self._has_own_feed_forward
        return self.output.LayerNorm if own else None

    @property
    def _has_own_feed_forward(self) -> bool:
        """Whether no layer or hook of a user's is between the two products of the block's end."""
        own = runs_own_forward(self.output, Residual)
        return own and runs_own_forward(self.intermediate, Intermediate)

    @property
    def supports_packing(self) -> bool:
        """Whether all attention of the block works without padding; see ``MultiHead``."""
        cross = getattr(self, "crossattention", None)
        sublayers = [self.attention] if cross is None else [self.attention, cross]
        return all(_own(sublayer).self.supports_packing for sublayer in sublayers)

    def forward(
        self,
        hidden: Tensor,
        context: Context = Context(),
        *,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        past: KVCache | None = None,
        memory: Tensor | None = None,
        need_weights: bool = False,
        only_first: bool = False,
        query_states: Tensor | None = None,
        checkpointed: bool = False,
    ) -> BlockOutput:
        """Compute the block.

        Args:
            hidden: shape (B, N, D).
            context: inputs that are the same for all blocks.
            head_mask: factor of each head's output. Shape (H,).
            cross_head_mask: factor of each head's output in cross-attention. Shape (H,).
            past: KV cache of the preceding tokens; ``hidden`` follows them.
            memory: the block's input for earlier tokens (Transformer-XL memory). They serve as keys
                and values, not as queries. Shape (B, memory length, D).
            need_weights: whether to return the attention weights.
            only_first: whether to compute only the first token: S is 1, else N.
            query_states: hidden states that query ``hidden`` and replace it as the residual; None
                for self-attention of ``hidden``. Shape (B, N, D).
            checkpointed: whether the block is recomputed in the backward pass. A post-norm block
                then returns its final sum before normalisation (see ``Stack``), and keeps nothing
                computed after the inner states.
        """
        source = self._source(self.attention, hidden)
        plain = past is None and memory is None and query_states is None and not only_first
        fused = self._fused_qkv(source, context) if plain else None
        query, (keys, start) = fused or (None, self._keys(source, context, past, memory))
        packing = context.packing
        if query_states is not None:
            hidden, source = query_states, self._source(self.attention, query_states)
        mask, cross_mask, bias = context.mask, context.cross_mask, context.bias
        if only_first:
            hidden, source = _first(hidden, packing), _first(source, packing)
            packing = None
            mask, cross_mask = _first_query(mask), _first_query(cross_mask)
            bias = _first_query(bias)
        attended = self.attention(
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
        hidden, weights, kernel = completed(attended)
        kernels, cross_weights = [kernel], None
        cross = self._cross_keys(context, past)
        if cross is not None:
            hidden, cross_weights, kernel = self.crossattention(
                hidden,
                self._source(self.crossattention, hidden),
                cross,
                mask=cross_mask,
                head_mask=cross_head_mask,
                need_weights=need_weights,
                packing=packing,
                memory_packing=context.encoder_packing,
            )
            kernels.append(kernel)
        cache = None
        if context.need_cache:  # only on request: checkpointing could not free it
            cache = BlockCache(self_attention=keys, cross_attention=cross)
        hidden = self._feed_forward(hidden, recomputed=checkpointed)
        return BlockOutput(hidden, weights, cross_weights, cache, tuple(kernels))

    def _fused_qkv(
        self, source: Tensor, context: Context
    ) -> tuple[Tensor, tuple[KeyValue, int]] | None:
        """Return queries and ``_keys`` by one product; None if unsupported or keys are cached."""
        if context.num_keys is not None or context.need_cache:
            return None
        fused = self.attention.self.fused_qkv(source, context.packing)
        return None if fused is None else (fused[0], (fused[1], 0))

    def _keys(
        self, source: Tensor, context: Context, past: KVCache | None, memory: Tensor | None
    ) -> tuple[KeyValue, int]:
        """Return all keys and values, and the number of them before the first query."""
        start = 0 if past is None else past.length
        attended = source if context.num_keys is None else source[:, : context.num_keys]
        if memory is not None:
            attended = torch.cat([self._source(self.attention, memory), attended], 1)
        heads = self.attention.self
        keys = heads.keys_and_values(attended, start=start, packing=context.packing)
        if past is not None:
            return past.extend(keys), start
        return keys, start if memory is None else memory.shape[1]

    def _cross_keys(self, context: Context, past: KVCache | None) -> KeyValue | None:
        """Return the keys and values of cross-attention; None without an encoder's output."""
        cross = None if past is None else past.cross_attention
        if cross is not None or context.encoder_hidden_states is None:
            return cross
        heads = self.crossattention.self
        return heads.keys_and_values(context.encoder_hidden_states, packing=context.encoder_packing)

    def _feed_forward(self, hidden: Tensor, *, recomputed: bool) -> Tensor:
        compute = partial(self._feed_forward_chunk, recomputed=recomputed)
        if not 0 < self.chunk < hidden.shape[1]:
            return compute(hidden)
        return torch.cat([compute(x) for x in torch.split(hidden, self.chunk, dim=1)], dim=1)

    def _source(self, sublayer: Attention, hidden: Tensor) -> Tensor:
        return sublayer_input(_own(sublayer).output, hidden, is_pre_norm=self.is_pre_norm)

    def _feed_forward_chunk(self, hidden: Tensor, *, recomputed: bool) -> Tensor:
        residual = self.output
        source = sublayer_input(residual, hidden, is_pre_norm=self.is_pre_norm)
        own = self._has_own_feed_forward
        if not own or (not recomputed and residual.is_fused(source, hidden)):
            output: Tensor = residual(self.intermediate(source), hidden)
            return output
        projected = self.intermediate.project(source, residual.dense, recomputed=recomputed)
        return residual.add_norm(projected, hidden, recomputed=recomputed)


def _first(hidden: Tensor, packing: Packing | None) -> Tensor:
    return hidden[:, :1] if packing is None else packing.first(hidden)


def _first_query(scores: Tensor | None) -> Tensor | None:
    return None if scores is None else scores[..., :1, :]


def _own(sublayer: nn.Module) -> Attention:
    """Return the attention of a block.

    Raises:
        UserError: a user replaced it, or its heads.
    """
    if isinstance(sublayer, Attention) and isinstance(sublayer.self, MultiHead):
        return sublayer
    raise UserError(
        "the attention of a block was replaced; only its layers query, key, value and output can be"
    )
