"""The base class of bodies with one stack of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from heedful.errors import UserError
from heedful.layers.stack import Stack
from heedful.models import pruning
from heedful.models.configs import renumber_pruned
from heedful.models.model import Model
from heedful.models.pretrained import initialise


class Body(Model):
    """Embeddings, a stack of blocks and an optional pooler.

    Attributes:
        embeddings: maps the input to vectors.
        encoder: the stack of blocks.
        pooler: maps the first token's hidden state to the pooled output; None if there is none.
    """

    supports_checkpointing = True
    _config: Any
    embeddings: Any
    encoder: Stack
    pooler: nn.Module | None

    @property
    def config(self) -> Any:
        """Current sizes and options.

        The depth follows the blocks: code for the reference assigns ``model.encoder.layer``.
        """
        stack = self._modules.get("encoder")
        if isinstance(stack, Stack) and len(stack.layer) != self._config.num_blocks:
            self._follow_blocks(stack)
        return self._config

    @config.setter
    def config(self, config: Any) -> None:
        self._config = config

    def _follow_blocks(self, stack: Stack) -> None:
        every = set(range(self._config.num_attention_heads))
        pruned = {
            number: sorted(every - set(block.attention.self.heads))
            for number, block in enumerate(stack.distinct)
        }
        self.config = replace(
            self._config,
            **{self._config.DEPTH: len(pruned)},
            pruned_heads={number: heads for number, heads in pruned.items() if heads},
        )

    def why_not_compiled(self) -> str | None:
        """Return None, since the blocks have a compiled form."""
        return None

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""
        words: nn.Embedding = self.embeddings.word_embeddings
        return words

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings; see ``Model.set_input_embeddings``."""
        width = self.get_input_embeddings().embedding_dim
        if embeddings.embedding_dim != width:
            raise UserError(
                f"the embeddings have width {embeddings.embedding_dim}; the model has {width}"
            )
        self.config = replace(self.config, vocab_size=embeddings.num_embeddings)
        self.embeddings.word_embeddings = embeddings

    def _resize_vocabulary(self, size: int) -> nn.Embedding:
        old = self.get_input_embeddings()
        self.config = replace(self.config, vocab_size=size)
        new = nn.Embedding(size, old.embedding_dim, old.padding_idx).to(old.weight)
        initialise(new, self.config.initializer_range)
        with torch.no_grad():
            new.weight[: old.num_embeddings] = old.weight[:size]
        new.requires_grad_(old.weight.requires_grad)
        self.embeddings.word_embeddings = new
        return new

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return the mask of the self-attention heads; a decoder's also masks cross-attention."""
        return {"head_mask": (self.config.num_blocks, self.config.num_attention_heads)}

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the pooler, which may start fresh."""
        return [] if self.pooler is None else [*self.pooler.parameters()]

    @property
    def num_blocks(self) -> int:
        """Number of blocks; 0 if layers share blocks, so that none can be removed."""
        blocks = len(self.encoder.blocks)
        return blocks if blocks == len(self.encoder.distinct) else 0

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks; see ``Model.keep_blocks``."""
        kept = renumber_pruned(self.config.pruned_heads, indices)
        config = replace(self.config, **{self.config.DEPTH: len(indices)}, pruned_heads=kept)
        self.encoder.keep(indices)
        self.config = config

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Remove self-attention heads; see ``pruning.prune_heads``."""
        attentions = [block.attention for block in self.encoder.distinct]
        pruned = pruning.prune_heads(attentions, heads, self.config.pruned_heads)
        self.config = replace(self.config, pruned_heads=pruned)
