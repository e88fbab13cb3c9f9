"""The steps of a search by a Transformer's decoder, compiled.

Queries, keys and values of the newest tokens are one product, and so are the keys and values of all
blocks for what was read. Biases, the activation and residuals are added by the kernel of the
product before them. Attention is a few batched products: its kernel would take longer to start than
to compute so few queries.

Shapes: N hypotheses, B items, W most hypotheses of an item, E length of the encoder's output, T
keys, H heads, K head width, D model width, V vocabulary.
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.linear import PackedLinear, joined
from heedful.compiled.residual import CompiledResidual, Norm
from heedful.layers.block import Attention, Block
from heedful.layers.positions import sinusoids
from heedful.layers.tree import Tree
from heedful.models.transformer.model import Transformer
from heedful.models.transformer.state import SearchState
from heedful.models.translation import uncovered

_NEVER = -1e30
"""Added to the score of what may not be attended to: its weight is 0. Cells of the grid without a
hypothesis may attend to nothing, and an infinity would make theirs no numbers."""


class CompiledDecoder:
    """What a Transformer's search takes its steps with.

    Args:
        model: the readable form, in the number format to compute with.
    """

    def __init__(self, model: Transformer) -> None:
        attentions = [block.crossattention.self for block in model.decoder.blocks]
        parts = [part for attention in attentions for part in (attention.key, attention.value)]
        self.aligning = model.aligning
        self.blocks = [
            _CompiledBlock(block, model.config.activation_function)
            for block in model.decoder.blocks
        ]
        self.memory = PackedLinear(*joined(parts))
        norm = model.decoder.layer_norm
        self.norm = None if norm is None else Norm.of(norm)
        self.table, self.scale = model.target_table.weight.detach(), model.scale
        scores = model.target_table if model.lm_head is None else model.lm_head
        dtype, bias = parts[0].weight.dtype, model.final_logits_bias[0]
        self.score = PackedLinear(
            scores.weight.detach().to(dtype), bias.to(dtype) if bias.any() else None
        )
        self.positions = torch.empty(0, self.memory.in_features)

    def start(self, encoded: Tensor, mask: Tensor | None, *, cover: bool) -> SearchState:
        """Return what is kept before the first token; see ``SearchState.start``."""
        batch, length, width = encoded.shape
        memory = self.memory(encoded.reshape(-1, width))  # (B * E, all blocks' keys and values)
        heads = [block.attention.heads for block in self.blocks]
        head_width = self.blocks[0].attention.head_width
        crosses, column = [], 0
        for block in self.blocks:
            size = 2 * block.cross.heads * head_width
            part = memory[:, column : column + size]
            column += size
            part = part.view(batch, length, 2, block.cross.heads, head_width)
            crosses.append(part.permute(2, 0, 3, 1, 4).contiguous())
        return SearchState(
            tree=Tree.start(batch, heads=heads, head_width=head_width, like=crosses[0]),
            crosses=crosses,
            cross_mask=None if mask is None else mask.clone(),
            coverage=uncovered(encoded, None if mask is None else mask[:, 0, 0]) if cover else None,
        )

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Score what follows the newest tokens; see ``decoding.search.NextScores``."""
        tree = state.tree.grow()
        hidden = self._embed(tree.grid.spread(tokens).flatten(), tree.length - 1)  # (B * W, D)
        biases = _Biases(torch.from_numpy(tree.mask), hidden.dtype)  # (B, W, M)
        padding = state.cross_mask
        crossing = _Biases(None if padding is None else padding[:, 0], hidden.dtype)  # (B, 1, E)
        coverage = state.coverage
        for number, block in enumerate(self.blocks):
            hidden, weights = block(hidden, number, tree, biases, state.crosses[number], crossing)
            if coverage is not None and number == self.aligning:
                coverage = coverage + tree.grid.collect(weights.mean(1))
        if self.norm is not None:
            hidden = F.layer_norm(hidden, *self.norm)
        hidden = tree.grid.collect(hidden.view(tree.grid.batch, tree.grid.width, -1))
        return self.score(hidden), replace(state, tree=tree, coverage=coverage)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        if position >= len(self.positions):
            positions = torch.arange(2 * position + 32)
            self.positions = sinusoids(positions, self.memory.in_features).to(self.table.dtype)
        return torch.add(self.positions[position], self.table[tokens], alpha=self.scale)


class _Biases:
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


class _CompiledBlock:
    """A block of a decoder.

    Args:
        block: the readable form.
        activation: a name in ``feedforward.ACTIVATIONS``.
    """

    def __init__(self, block: Block, activation: str) -> None:
        heads = block.attention.self
        self.project = PackedLinear(*joined([heads.query, heads.key, heads.value]))
        self.attention = _CompiledAttention(block.attention)
        self.query = PackedLinear(*joined([block.crossattention.self.query]))
        self.cross = _CompiledAttention(block.crossattention)
        self.widen = PackedLinear(*joined([block.intermediate.dense]), activation)
        self.narrow = CompiledResidual(block.output)

    def __call__(
        self,
        hidden: Tensor,
        number: int,
        tree: Tree,
        biases: _Biases,
        cross: Tensor,
        crossing: _Biases,
    ) -> tuple[Tensor, Tensor]:
        """Compute the newest tokens.

        Args:
            hidden: those of all cells of the grid. Shape (B * W, D).
            number: of the block.
            tree: grown by them; the block fills its nodes.
            biases: which nodes each hypothesis attends to.
            cross: keys and values of what was read. Shape (2, B, H, E, K).
            crossing: which of it is no padding.

        Returns:
            Shape (B * W, D), and the weights of the cross-attention, shape (B, H, W, E).
        """
        batch, width = tree.grid.batch, tree.grid.width
        projected = self.project(self.attention.output.source(hidden))
        heads, head_width = self.attention.heads, self.attention.head_width
        size = heads * head_width
        newest = projected[:, size:].view(batch, width, 2, heads, head_width)
        memory = tree.fill(number, newest)
        hidden, _ = self.attention(hidden, projected[:, :size], memory, biases)
        query = self.query(self.cross.output.source(hidden))
        hidden, weights = self.cross(hidden, query, cross, crossing)
        inner = self.widen(self.narrow.source(hidden))
        return self.narrow(inner, hidden), weights


class _CompiledAttention:
    """Attention of few queries, with what follows it.

    Args:
        attention: the readable form.
    """

    def __init__(self, attention: Attention) -> None:
        self.heads, self.head_width = len(attention.self.heads), attention.self.head_width
        self.output = CompiledResidual(attention.output)

    def __call__(
        self, hidden: Tensor, query: Tensor, memory: Tensor, biases: _Biases
    ) -> tuple[Tensor, Tensor]:
        """Return hidden states, shape (B * W, D), and weights, shape (B, H, W, T).

        Args:
            hidden: what the part reads. Shape (B * W, D).
            query: shape (B * W, H * K).
            memory: keys and values. Shape (2, B, H, T, K).
            biases: added to the scores.
        """
        batch, shape = memory.shape[1], (self.heads, self.head_width)
        queries = query.view(batch, -1, *shape).transpose(1, 2)  # (B, H, W, K)
        queries = queries.reshape(batch * self.heads, -1, self.head_width)
        key, value = memory.flatten(1, 2)  # (B * H, T, K)
        bias, scale = biases.of(self.heads), 1 / math.sqrt(self.head_width)
        if bias is None:
            scores = torch.baddbmm(queries.new_empty(1), queries, key.mT, beta=0, alpha=scale)
        else:
            scores = torch.baddbmm(bias, queries, key.mT, alpha=scale)
        weights = scores.softmax(-1)
        mixed = torch.bmm(weights, value).view(batch, *shape[:1], -1, self.head_width)
        rows = mixed.transpose(1, 2).reshape(len(hidden), -1)
        return self.output(rows, hidden), weights.view(*mixed.shape[:3], -1)
