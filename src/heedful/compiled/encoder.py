"""The compiled blocks of an encoder or decoder: the computation of a stack in fewer passes.

Padding is removed before the first block and restored after the last. One matrix product computes
queries, keys and values. Biases, activations and residuals are fused into the kernel of the
preceding product.

Shapes: B batch, S length, N tokens without padding, H heads, K head width, D model width.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.compiled.attention import Group, attend
from heedful.compiled.linear import Linear, Linears
from heedful.compiled.newest_tokens import Biases, attend_newest
from heedful.compiled.packing import (
    Packing,
    has_inner_padding,
    pack,
    pack_padded_sides,
    padding_of_causal,
)
from heedful.compiled.position_terms import compiled_terms
from heedful.compiled.relative import SharedRelations
from heedful.compiled.residual import CompiledResidual, Norm
from heedful.compiled.watch import Watch
from heedful.layers.block import Block, Context
from heedful.layers.cache import KVCache
from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import Distances
from heedful.layers.positions import Relations
from heedful.layers.stack import Stack, StackOutput
from heedful.layers.tree_cache import Tree


class CompiledBlock:
    """A compiled block with self-attention.

    Args:
        block: the uncompiled block.
        activation: a name in ``feedforward.ACTIVATIONS``.
        linears: compiles the linear layers.
        query_apart: whether the queries have a matrix product of their own. Then they can be
            computed for only the first tokens, or for other vectors.
        causal: whether attention is causal.
        distances: distance embeddings shared by all blocks, if any.
    """

    def __init__(
        self,
        block: Block,
        activation: str,
        linears: Linears,
        *,
        query_apart: bool,
        causal: bool = False,
        distances: Distances | None = None,
    ) -> None:
        heads = block.attention.self
        self.causal = causal
        self.heads = list(heads.heads)
        self.head_width = heads.head_width
        self.sparse = heads.sparse
        self.width = heads.query.out_features
        factor = heads.score_factor
        if query_apart:
            self.query: Linear | None = linears.after_norm([heads.query], factor)
            self.project = linears.after_norm([heads.key, heads.value])
        else:
            qkv = [heads.query, heads.key, heads.value]
            self.query, self.project = None, linears.after_norm(qkv, factor)
        self.terms = compiled_terms(heads, distances, self.project.dtype)
        self.mix = CompiledResidual(block.attention.output, linears)
        self.widen = linears.after_norm([block.intermediate.dense], activation=activation)
        self.narrow = CompiledResidual(block.output, linears)
        self.together = linears.together

    def __call__(
        self,
        hidden: Tensor,
        groups: Sequence[Group],
        firsts: Tensor | None = None,
        bias: Tensor | None = None,
        shared: Tensor | SharedRelations | None = None,
        query_states: Tensor | None = None,
    ) -> Tensor:
        """Compute all tokens, shape (N, D), or only the first of each sequence, shape (B, D).

        Args:
            hidden: shape (N, D).
            groups: the sequences.
            firsts: indices of the first tokens, to compute only these. Shape (B,).
            bias: see ``attend``; for all heads, including pruned ones.
            shared: input that the position terms of all blocks share; see ``Terms.laid_out``.
            query_states: hidden states that query ``hidden`` and replace it as the residual.
                Shape (N, D).
        """
        source = self.mix.source(hidden)
        memory = self.project(source)
        if query_states is not None:
            hidden, source = query_states, self.mix.source(query_states)
        if firsts is not None:
            hidden, source = hidden[firsts], source[firsts]
        if self.query is None:
            query, memory = memory[:, : self.width], memory[:, self.width :]
            query = query if firsts is None else query[firsts]
        else:
            query = self.query(source)
        only_first = firsts is not None
        if bias is not None and len(bias) > len(self.heads):
            bias = bias[self.heads]
        terms = None if self.terms is None or shared is None else self.terms.laid_out(shared)
        mixed = attend(
            *(query, memory, groups, self.head_width),
            only_first=only_first,
            bias=bias,
            causal=self.causal,
            sparse=self.sparse,
            terms=terms,
        )
        if self.together is None or len(mixed) <= self.together:
            return self.feed_forward(self.mix(mixed, hidden))
        parts = zip(*(torch.split(rows, self.together) for rows in (mixed, hidden)), strict=True)
        return torch.cat([self.feed_forward(self.mix(*part)) for part in parts])

    def read(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries, shape (N, H * K), and keys and values, (N, 2 * H * K), of all tokens."""
        assert self.query is None
        projected = self.project(self.mix.source(hidden))
        return projected[:, : self.width], projected[:, self.width :]

    def attend_newest(self, hidden: Tensor, number: int, tree: Tree, biases: Biases) -> Tensor:
        """Compute attention of the newest tokens of a search's hypotheses. Shape (N, H * K).

        Args:
            hidden: hidden states of these tokens, in all cells of the grid. Shape (N, D).
            number: index of the block.
            tree: the tree, already grown by these tokens; their nodes are filled.
            biases: the nodes that each hypothesis attends to.
        """
        query, new = self.read(hidden)
        grid, heads = tree.grid, len(self.heads)
        memory = tree.fill(number, new.view(grid.batch, grid.width, 2, heads, self.head_width))
        return attend_newest(query, memory, biases, self.head_width)[0]

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """Return the output of the block. Shape (N, D).

        Args:
            hidden: output of the attention sublayer. Shape (N, D).
        """
        return self.narrow(self.widen(self.narrow.source(hidden)), hidden)


def _shared_relations(relations: Relations, packing: Packing, longest: int) -> SharedRelations:
    """Return the distances and segments of the packed tokens; see ``SharedRelations``."""
    spare = (relations.vectors.shape[1] + 1) // 2 - longest
    vectors = relations.vectors[0, spare : spare + 2 * longest - 1]
    types = relations.segment_ids
    return SharedRelations(
        vectors, None if types is None else packing.of_tokens(types[..., None])[:, 0]
    )


def _add_convolution(
    convolution: Convolution,
    source: Tensor,
    tokens: Tensor,
    groups: Sequence[Group],
    firsts: Tensor | None,
) -> Tensor:
    """Apply a convolution to all tokens, or only to the first ones; see ``Convolution``.

    Args:
        convolution: the convolution, in the dtype of the source.
        source: input of the first block. Shape (N, D).
        tokens: output of the first block. Shape (N, D), or (B, D) for the first tokens.
        groups: the sequences.
        firsts: indices of the first tokens, to compute only these. Shape (B,).
    """
    sizes = [group.size * group.length for group in groups]
    parts = torch.split(source[: sum(sizes)], sizes)
    convolved = torch.cat(
        [
            convolution.convolve(part.view(group.size, group.length, -1)).flatten(0, 1)
            for part, group in zip(parts, groups, strict=True)
        ]
    )
    convolved = F.pad(convolved, (0, 0, 0, len(source) - len(convolved)))
    return convolution.add(convolved if firsts is None else convolved[firsts], tokens)


class CompiledStack(nn.Module):
    """The compiled blocks of an encoder or decoder, with the call signature of ``Stack``.

    Unsupported calls go to the uncompiled stack: head masks, attention weights, intermediate hidden
    states, caches and cross-attention, gradients, and models that have hooks or were changed after
    compilation. The hidden states of padding are 0.

    Args:
        stack: the uncompiled stack.
        blocks: its compiled blocks.
        kernel: the kernel that the blocks use.
        causal: whether attention is causal.
    """

    supports_packing: ClassVar[bool] = False
    """See ``Stack``. A compiled stack removes padding in its own way."""

    def __init__(
        self, stack: Stack, blocks: Sequence[CompiledBlock], kernel: str, *, causal: bool = False
    ) -> None:
        super().__init__()
        self.plain = stack
        self.causal = causal
        self.norm = None if stack.layer_norm is None else Norm.of(stack.layer_norm)
        self.blocks = blocks
        self.kernel = kernel
        # Removing padding must not change the distances between tokens.
        self.needs_contiguous = (
            stack.relative_attention_bias is not None
            or stack.convolution is not None
            or any(block.terms is not None or block.sparse is not None for block in blocks)
        )
        self.watch = Watch(stack)

    def forward(
        self,
        hidden: Tensor,
        context: Context,
        *,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        past: Sequence[KVCache] | None = None,
        memory: Sequence[Tensor] | None = None,
        weights_of: Collection[int] = (),
        need_states: bool = False,
        recompute: bool = False,
        only_first: bool = False,
        query_offset: Tensor | None = None,
    ) -> StackOutput:
        """Compute all blocks; see ``Stack``."""
        mask = context.mask
        packing = None
        supported = not (
            head_mask is not None
            or past is not None
            or memory is not None
            or (context.relations is not None and not context.relations.full_attention)
            or weights_of
            or need_states
            or context.need_cache
            or context.encoder_hidden_states is not None
            or context.packing is not None
            or (only_first and self.causal)
            or torch.is_grad_enabled()
            or self.watch.is_changed()
        )
        if supported:
            batch, length = hidden.shape[:2]
            if context.relations is None:
                packing = self._packing(mask, batch, length)
            else:
                packing = pack_padded_sides(context.relations.token_mask, batch, length)
        if packing is None:
            output: StackOutput = self.plain(
                hidden,
                context,
                head_mask=head_mask,
                cross_head_mask=cross_head_mask,
                past=past,
                memory=memory,
                weights_of=weights_of,
                need_states=need_states,
                recompute=recompute,
                only_first=only_first,
                query_offset=query_offset,
            )
            return output
        return StackOutput(
            states=(
                self._compute(
                    hidden, packing, query_offset, context.relations, only_first=only_first
                ),
            ),
            attentions=None,
            cross_attentions=None,
            cache=None,
            kernels=(self.kernel,) * len(self.blocks),
        )

    @property
    def layer_norm(self) -> nn.LayerNorm | None:
        """The final layer normalisation; see ``Stack``."""
        return self.plain.layer_norm

    def _packing(self, mask: Tensor | None, batch: int, length: int) -> Packing | None:
        """Return the packing, or None if the mask is more than a padding mask."""
        if mask is None:
            return None if self.causal and length > 1 else pack(None, batch, length)
        if mask.shape[1] != 1 or (mask.shape[2] != 1 and not self.causal):
            return None
        if mask.shape[2] == 1:
            tokens = mask[:, 0, 0]
            if self.needs_contiguous and has_inner_padding(tokens):
                return None
            return pack(tokens, batch, length)
        left = padding_of_causal(mask)
        if left is None:
            return None
        return pack(None if bool(left.all()) else left.expand(batch, -1), batch, length)

    def _compute(
        self,
        hidden: Tensor,
        packing: Packing,
        query_offset: Tensor | None,
        relations: Relations | None,
        *,
        only_first: bool,
    ) -> Tensor:
        """Return shape (B, S, D), or (B, 1, D) for only the first tokens."""
        batch, length, width = hidden.shape
        tokens = start = packing.of_tokens(hidden)  # (N, D)
        groups, plain = packing.groups, self.plain
        longest = max(group.length for group in groups)
        bias: Tensor | None = None
        shared: Tensor | SharedRelations | None = None
        if plain.relative_attention_bias is not None:
            bias = plain.relative_attention_bias.bias(longest, longest)[0]
        if plain.distances is not None:
            shared = plain.distances.rows(longest)
        if relations is not None:
            shared = _shared_relations(relations, packing, longest)
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            firsts = packing.firsts if only_first and last else None
            if query_offset is None or not last:
                tokens = block(tokens, groups, firsts, bias, shared)
            else:
                query = tokens + packing.of_tokens(query_offset.expand(hidden.shape)).to(
                    tokens.dtype
                )
                query = block(tokens, groups, firsts, bias, shared, query)
                tokens = block(tokens, groups, firsts, bias, shared, query)
            if plain.convolution is not None and number == 0:
                tokens = _add_convolution(plain.convolution, start, tokens, groups, firsts)
        if self.norm is not None:
            tokens = F.layer_norm(tokens, *self.norm)
        if only_first:
            if packing.order is not None:
                ordered = torch.empty_like(tokens)
                ordered[packing.order] = tokens
                tokens = ordered
            return tokens[:, None]
        if packing.tokens is None:
            return tokens.view(batch, length, width)
        padded = tokens.new_zeros(batch * length, width)
        padded[packing.tokens[: packing.num_tokens]] = tokens[: packing.num_tokens]
        return padded.view(batch, length, width)
