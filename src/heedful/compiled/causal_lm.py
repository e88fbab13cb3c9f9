"""The compiled steps of text generation by a causal language model.

Prompts of any lengths are processed as one packed batch, without padding, and continued in
parallel. The keys and values of a token are stored once, however many hypotheses share it: see
``layers/tree_cache.py``.

Shapes: B items, N hypotheses, W largest number of hypotheses per item, S longest prompt, T tokens
of all prompts, M nodes of an item, H heads, K head width, D model width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import attend
from heedful.compiled.encoder import CompiledBlock, CompiledStack
from heedful.compiled.linear import Linears
from heedful.compiled.newest_tokens import Biases, score_newest
from heedful.compiled.packing import pack
from heedful.compiled.watch import Watch
from heedful.layers.tree_cache import Grid, Tree
from heedful.models.encoder import Encoder
from heedful.models.with_head import ModelWithHead, language_head


@dataclass(frozen=True, kw_only=True, slots=True)
class CausalLMState:
    """The state of a search's hypotheses. Use only the newest state: see ``Tree``."""

    tree: Tree

    def select(self, rows: Tensor) -> "CausalLMState":
        """Return the state of the given rows, in this order, with repetitions allowed.

        Args:
            rows: row indices. Shape (N,), int64.
        """
        return CausalLMState(tree=self.tree.select(rows.cpu().numpy())[0])


class CompiledCausalLM:
    """Computes the decoder steps of a causal language model's search.

    Args:
        model: the uncompiled model, in the dtype to compute with.
        stack: its compiled stack.
        blocks: the compiled blocks of the stack.
        linears: compiles the linear layers.
    """

    def __init__(
        self,
        model: ModelWithHead,
        stack: CompiledStack,
        blocks: Sequence[CompiledBlock],
        linears: Linears,
    ) -> None:
        body, head = model.body, language_head(model)
        assert isinstance(body, Encoder)
        assert head is not None
        self.embeddings = body.embeddings
        self.stack, self.blocks, self.norm = stack, blocks, stack.norm
        self.model, self.head = model, head
        self.vectors = head.vectors(model.get_input_embeddings())
        self.watch = Watch(model.get_input_embeddings(), head)
        self.dtype = blocks[0].project.dtype
        bias = None if head.bias is None else head.bias.to(self.dtype)
        self.score = linears.after_any(self.vectors.detach().to(self.dtype), bias)

    @property
    def is_current(self) -> bool:
        """Whether the uncompiled model has not changed since compilation."""
        vectors = self.head.vectors(self.model.get_input_embeddings())
        changed = self.watch.is_changed() or self.stack.watch.is_changed()
        return vectors is self.vectors and not changed

    def start(self, prompts: Tensor, lengths: Tensor) -> CausalLMState:
        """Prefill: process each prompt without its last token, which the first step receives.

        Args:
            prompts: token ids. Shape (B, S).
            lengths: number of tokens of each prompt, at least 1. Shape (B,).
        """
        batch, longest = len(prompts), int(lengths.max()) - 1
        items = np.arange(batch)
        heads = [len(block.heads) for block in self.blocks]
        width = self.blocks[0].head_width
        nodes = tuple(
            torch.zeros(2, batch, number, longest, width, dtype=self.dtype) for number in heads
        )
        real = torch.arange(longest) < (lengths - 1)[:, None]  # (B, S - 1)
        nonempty = (lengths > 1).nonzero().squeeze(1)  # prompts with tokens to process
        if len(nonempty):
            self._read(prompts[nonempty, :longest], real[nonempty], nonempty, nodes)
        tree = Tree(
            nodes=nodes,
            node_mask=real.numpy(),
            newest_nodes=items[:, None],
            grid=Grid.of(items, batch),
            length=longest,
        )
        return CausalLMState(tree=tree)

    def _read(self, ids: Tensor, real: Tensor, items: Tensor, nodes: Sequence[Tensor]) -> None:
        """Compute and store the keys and values of prompts of at least one token each.

        Args:
            ids: token ids. Shape (B, S).
            real: True for a token, False for padding after the last token. Shape (B, S).
            items: item index of each prompt. Shape (B,).
            nodes: the nodes to fill. Each of shape (2, items, H, S, K).
        """
        packing = pack(None if bool(real.all()) else real, *ids.shape)
        assert packing is not None
        hidden = packing.of_tokens(self._embed(ids, 0))  # (N, D)
        indices = torch.arange(len(hidden)) if packing.tokens is None else packing.tokens
        indices = indices[: packing.num_tokens]
        rows, positions = items[indices // ids.shape[1]], indices % ids.shape[1]
        for number, block in enumerate(self.blocks):
            query, memory = block.read(hidden)
            new = memory.view(len(hidden), 2, len(block.heads), block.head_width)
            nodes[number].permute(1, 3, 0, 2, 4)[rows, positions] = new[: packing.num_tokens]
            if number < len(self.blocks) - 1:  # of the last block only keys and values are needed
                rest = (packing.groups, block.head_width)
                mixed = attend(query, memory, *rest, only_first=False, causal=True)
                hidden = block.feed_forward(block.mix(mixed, hidden))

    def step(self, tokens: Tensor, state: CausalLMState) -> tuple[Tensor, CausalLMState]:
        """Return the scores of the next tokens; see ``decoding.search.ScoreFunction``."""
        tree = state.tree.grow()
        earlier = torch.from_numpy(tree.node_mask.sum(1) - 1)  # (N,)
        hidden = self._embed(tokens[:, None], earlier[:, None])[:, 0]  # (N, D)
        hidden = tree.grid.scatter(hidden).flatten(0, 1)  # (B * W, D)
        biases = Biases(torch.from_numpy(tree.mask), hidden.dtype)
        for number, block in enumerate(self.blocks):
            mixed = block.attend_newest(hidden, number, tree, biases)
            hidden = block.feed_forward(block.mix(mixed, hidden))
        if self.norm is not None:
            hidden = F.layer_norm(hidden, *self.norm)
        hidden = tree.grid.gather(hidden.view(tree.grid.batch, tree.grid.width, -1))
        if self.head.transform is not None:
            hidden = self.head.transform(hidden)
        return score_newest(self.score, hidden), CausalLMState(tree=tree)

    def _embed(self, ids: Tensor, earlier: int | Tensor) -> Tensor:
        """Return embeddings of tokens of shape (B, S), given the number of tokens before each row.

        The number is the same for all rows, or has the shape (B, 1).
        """
        positions = self.embeddings.default_positions(ids, earlier)
        hidden: Tensor = self.embeddings(ids, None, positions)
        return hidden.to(self.dtype)
