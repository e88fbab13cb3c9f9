"""The compiled decoder steps of a Transformer's beam search.

One matrix product computes the cross-attention keys and values of all blocks.

Shapes: N hypotheses, B items, W largest number of hypotheses per item, E length of the encoder's
output, T keys, H heads, K head width, D model width, V vocabulary.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.encoder import CompiledBlock
from heedful.compiled.linear import Linears, concatenated
from heedful.compiled.newest_tokens import Biases, attend_newest, score_newest
from heedful.compiled.residual import CompiledResidual, Norm
from heedful.compiled.watch import Watch
from heedful.layers.block import Block
from heedful.layers.positions import sinusoids
from heedful.layers.tree_cache import Tree
from heedful.models.transformer.model import Transformer
from heedful.models.transformer.state import SearchState
from heedful.models.translation import initial_coverage


class CompiledDecoder:
    """Computes the decoder steps of a Transformer's search.

    Args:
        model: the uncompiled model, in the dtype to compute with.
        linears: compiles the linear layers.
    """

    def __init__(self, model: Transformer, linears: Linears) -> None:
        attentions = [block.crossattention.self for block in model.decoder.blocks]
        parts = [part for attention in attentions for part in (attention.key, attention.value)]
        self.aligning = model.alignment_layer
        activation = model.config.activation_function
        self.blocks = [_DecoderBlock(block, activation, linears) for block in model.decoder.blocks]
        self.memory = linears.after_any(*concatenated(parts))
        norm = model.decoder.layer_norm
        self.norm = None if norm is None else Norm.of(norm)
        self.table, self.scale = model.target_table.weight.detach(), model.scale
        scores = model.target_table if model.lm_head is None else model.lm_head
        dtype, bias = parts[0].weight.dtype, model.final_logits_bias[0]
        self.score = linears.after_any(
            scores.weight.detach().to(dtype), bias.to(dtype) if bias.any() else None
        )
        self.positions = torch.empty(0, self.memory.in_features)
        self.watch = Watch(model)

    @property
    def is_current(self) -> bool:
        """Whether the uncompiled model has not changed since compilation."""
        return not self.watch.is_changed()

    def start(self, encoded: Tensor, mask: Tensor | None, *, cover: bool) -> SearchState:
        """Return the state before the first token; see ``SearchState.start``."""
        batch, length, width = encoded.shape
        memory = self.memory(encoded.reshape(-1, width))  # (B * E, all blocks' keys and values)
        heads = [len(block.inner.heads) for block in self.blocks]
        head_width = self.blocks[0].inner.head_width
        crosses, column = [], 0
        for block in self.blocks:
            size = 2 * block.cross_heads * head_width
            part = memory[:, column : column + size]
            column += size
            part = part.view(batch, length, 2, block.cross_heads, head_width)
            crosses.append(part.permute(2, 0, 3, 1, 4).contiguous())
        return SearchState(
            tree=Tree.start(batch, heads=heads, head_width=head_width, like=crosses[0]),
            cross_key_values=crosses,
            cross_mask=None if mask is None else mask.clone(),
            coverage=initial_coverage(encoded, None if mask is None else mask[:, 0, 0])
            if cover
            else None,
        )

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return the scores of the next tokens; see ``decoding.search.ScoreFunction``."""
        tree = state.tree.grow()
        hidden = self._embed(tree.grid.scatter(tokens).flatten(), tree.length - 1)  # (B * W, D)
        biases = Biases(torch.from_numpy(tree.mask), hidden.dtype)  # (B, W, M)
        padding = state.cross_mask
        crossing = Biases(None if padding is None else padding[:, 0], hidden.dtype)  # (B, 1, E)
        coverage = state.coverage
        for number, block in enumerate(self.blocks):
            hidden, weights = block(
                hidden, number, tree, biases, state.cross_key_values[number], crossing
            )
            if coverage is not None and number == self.aligning:
                coverage = coverage + tree.grid.gather(weights.mean(1))
        if self.norm is not None:
            hidden = F.layer_norm(hidden, *self.norm)
        hidden = tree.grid.gather(hidden.view(tree.grid.batch, tree.grid.width, -1))
        return score_newest(self.score, hidden), replace(state, tree=tree, coverage=coverage)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        positions = self.positions  # another thread may replace them at any time
        if position >= len(positions):
            numbers = torch.arange(2 * position + 32)
            positions = sinusoids(numbers, self.memory.in_features).to(self.table.dtype)
            self.positions = positions
        return torch.add(positions[position], self.table[tokens], alpha=self.scale)


class _DecoderBlock:
    """A decoder block with self-attention and cross-attention.

    Args:
        block: the uncompiled block.
        activation: a name in ``feedforward.ACTIVATIONS``.
        linears: compiles the linear layers.
    """

    def __init__(self, block: Block, activation: str, linears: Linears) -> None:
        cross = block.crossattention
        self.inner = CompiledBlock(block, activation, linears, query_apart=False)
        self.cross_heads = len(cross.self.heads)
        self.query = linears.after_norm([cross.self.query])
        self.cross = CompiledResidual(cross.output, linears)

    def __call__(
        self,
        hidden: Tensor,
        number: int,
        tree: Tree,
        biases: Biases,
        cross: Tensor,
        crossing: Biases,
    ) -> tuple[Tensor, Tensor]:
        """Compute the block for the newest tokens.

        Args:
            hidden: their hidden states, in all cells of the grid. Shape (B * W, D).
            number: index of the block.
            tree: the tree, already grown by these tokens; the block fills their nodes.
            biases: the nodes that each hypothesis attends to.
            cross: cross-attention keys and values. Shape (2, B, H, E, K).
            crossing: bias that masks the padding of the encoder's output.

        Returns:
            Shape (B * W, D), and the weights of the cross-attention, shape (B, H, W, E).
        """
        inner = self.inner
        hidden = inner.mix(inner.attend_newest(hidden, number, tree, biases), hidden)
        query = self.query(self.cross.source(hidden))
        mixed, weights = attend_newest(query, cross, crossing, inner.head_width)
        return inner.feed_forward(self.cross(mixed, hidden)), weights
