"""The steps of a search by a decoder that goes on with texts, compiled.

Prompts of any lengths are read at once, without padding, and continued side by side. The keys and
values of a token are kept once, however many hypotheses go on from it: see ``layers/tree.py``.

Shapes: B items, N hypotheses, W most hypotheses of an item, S longest prompt, T tokens of all
prompts, M nodes of an item, H heads, K head width, D model width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import attend
from heedful.compiled.encoder import CompiledBlock, CompiledStack
from heedful.compiled.few import Biases, score_few
from heedful.compiled.linear import Linears
from heedful.compiled.packing import pack
from heedful.compiled.watch import Watch
from heedful.layers.tree import Grid, Tree
from heedful.models.encoder import Encoder
from heedful.models.with_head import WithHead, language_head


@dataclass(frozen=True, kw_only=True, slots=True)
class CausalLMState:
    """What is kept of the hypotheses of a search. Only the newest may be used: see ``Tree``."""

    tree: Tree

    def select(self, rows: Tensor) -> "CausalLMState":
        """Return what is kept of some rows, in that order, any of them several times.

        Args:
            rows: numbers of rows. Shape (N,), int64.
        """
        return CausalLMState(tree=self.tree.select(rows.cpu().numpy())[0])


class CompiledCausalLM:
    """What a decoder's search takes its steps with.

    Args:
        model: the readable form, in the number format to compute with.
        stack: the compiled form of its blocks.
        blocks: these blocks.
        linears: how linear layers are compiled.
    """

    def __init__(
        self,
        model: WithHead,
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
        padding = body.config.padding_position
        self.first = 0 if padding is None else padding + 1

    @property
    def is_current(self) -> bool:
        """Whether it computes what the readable form does, which may have changed since."""
        vectors = self.head.vectors(self.model.get_input_embeddings())
        changed = self.watch.is_changed() or self.stack.watch.is_changed()
        return vectors is self.vectors and not changed

    def start(self, prompts: Tensor, lengths: Tensor) -> CausalLMState:
        """Read all of each prompt but its last token, which the first step is given.

        Args:
            prompts: token ids. Shape (B, S).
            lengths: how many tokens each prompt has, at least 1. Shape (B,).
        """
        batch, longest = len(prompts), int(lengths.max()) - 1
        items = np.arange(batch)
        heads = [len(block.heads) for block in self.blocks]
        width = self.blocks[0].head_width
        nodes = tuple(
            torch.zeros(2, batch, number, longest, width, dtype=self.dtype) for number in heads
        )
        real = torch.arange(longest) < (lengths - 1)[:, None]  # (B, S - 1)
        read = (lengths > 1).nonzero().squeeze(1)  # the prompts that there is something to read of
        if len(read):
            self._read(prompts[read, :longest], real[read], read, nodes)
        tree = Tree(
            nodes=nodes,
            seen=real.numpy(),
            newest=items[:, None],
            grid=Grid.of(items, batch),
            length=longest,
        )
        return CausalLMState(tree=tree)

    def _read(self, ids: Tensor, real: Tensor, items: Tensor, nodes: Sequence[Tensor]) -> None:
        """Keep the keys and values of prompts, each of at least a token.

        Args:
            ids: shape (B, S).
            real: True for a token, False for the padding after the last. Shape (B, S).
            items: the number of each. Shape (B,).
            nodes: what is filled. Each of shape (2, items, H, S, K).
        """
        packing = pack(None if bool(real.all()) else real, *ids.shape)
        assert packing is not None
        hidden = packing.of_tokens(self._embed(ids, torch.arange(ids.shape[1])[None]))  # (N, D)
        numbers = torch.arange(len(hidden)) if packing.tokens is None else packing.tokens
        numbers = numbers[: packing.num_tokens]
        rows, places = items[numbers // ids.shape[1]], numbers % ids.shape[1]
        for number, block in enumerate(self.blocks):
            query, memory = block.read(hidden)
            new = memory.view(len(hidden), 2, len(block.heads), block.head_width)
            nodes[number].permute(1, 3, 0, 2, 4)[rows, places] = new[: packing.num_tokens]
            if number < len(self.blocks) - 1:  # of the last nothing else is wanted
                rest = (packing.groups, block.head_width)
                mixed = attend(query, memory, *rest, only_first=False, causal=True)
                hidden = block.feed_forward(block.mix(mixed, hidden))

    def step(self, tokens: Tensor, state: CausalLMState) -> tuple[Tensor, CausalLMState]:
        """Score what follows the newest tokens; see ``decoding.search.NextScores``."""
        tree = state.tree.grow()
        places = torch.from_numpy(tree.seen.sum(1) - 1)  # (N,)
        hidden = self._embed(tokens[:, None], places[:, None])[:, 0]  # (N, D)
        hidden = tree.grid.spread(hidden).flatten(0, 1)  # (B * W, D)
        biases = Biases(torch.from_numpy(tree.mask), hidden.dtype)
        for number, block in enumerate(self.blocks):
            mixed = block.attend_newest(hidden, number, tree, biases)
            hidden = block.feed_forward(block.mix(mixed, hidden))
        if self.norm is not None:
            hidden = F.layer_norm(hidden, *self.norm)
        hidden = tree.grid.collect(hidden.view(tree.grid.batch, tree.grid.width, -1))
        if self.head.transform is not None:
            hidden = self.head.transform(hidden)
        return score_few(self.score, hidden), CausalLMState(tree=tree)

    def _embed(self, ids: Tensor, places: Tensor) -> Tensor:
        """Return the vectors of tokens, shape (B, S), by how many stand before each of them."""
        hidden: Tensor = self.embeddings(ids, None, self.first + places)
        return hidden.to(self.dtype)
