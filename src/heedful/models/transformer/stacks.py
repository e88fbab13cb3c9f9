"""The two stacks of blocks of a Transformer, with the vectors of their words.

The attributes are named so that a state dict has the names of the reference's Marian models.

Shapes: B batch, S length, T length with what came before, E length of the encoder's output, H
heads, D model width.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple, cast

from torch import Tensor, nn

from heedful.layers.cache import KeyValue
from heedful.layers.sequence_blocks import SequenceBlock
from heedful.layers.tree import Tree
from heedful.models.transformer.config import TransformerConfig


class StackOutput(NamedTuple):
    """What a stack of blocks returns."""

    hidden: Tensor
    """Shape (B, S, D)."""
    attentions: tuple[Tensor, ...]
    """Of each block that was asked for. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...]
    """Of each of them in a decoder. Each of shape (B, H, S, E)."""


class Stack(nn.Module):
    """The blocks of the encoder or the decoder, and its word vectors if it has its own.

    Args:
        config: the sizes and options.
        decoder: whether it is the decoder.
    """

    def __init__(self, config: TransformerConfig, *, decoder: bool) -> None:
        super().__init__()
        words = config.decoder_vocab_size if decoder else config.vocab_size
        self.embed_tokens = None
        if not config.share_encoder_decoder_embeddings:
            self.embed_tokens = nn.Embedding(words, config.d_model, config.pad_token_id)
        heads = config.decoder_attention_heads if decoder else config.encoder_attention_heads
        self.layers = nn.ModuleList(
            SequenceBlock(
                width=config.d_model,
                num_heads=heads,
                inner_width=config.decoder_ffn_dim if decoder else config.encoder_ffn_dim,
                activation=config.activation_function,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                activation_dropout=config.activation_dropout,
                normalize_before=config.normalize_before,
                cross_attention=decoder,
            )
            for _ in range(config.decoder_layers if decoder else config.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(config.d_model) if config.normalize_before else None

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor | None,
        *,
        crosses: Sequence[KeyValue | None] | None = None,
        cross_mask: Tensor | None = None,
        tree: Tree | None = None,
        weights_of: Collection[int] = (),
    ) -> StackOutput:
        """Compute all blocks.

        Args:
            hidden: embedded words. Shape (B, S, D).
            mask: bool, broadcastable to (B, H, S, T); None lets every token attend to all.
            crosses: what each block of a decoder attends to: ``keys_and_values``.
            cross_mask: like ``mask``, broadcastable to (B, H, S, E).
            tree: in a search, has grown by these tokens.
            weights_of: the numbers of the blocks whose attention weights are returned.
        """
        weights, cross_weights = [], []
        for number, block in enumerate(self.layers):
            output = block(
                hidden,
                mask,
                cross=None if crosses is None else crosses[number],
                cross_mask=cross_mask,
                remember=None if tree is None else partial(tree.remember, number),
                need_weights=number in weights_of,
            )
            hidden = output.hidden
            if number in weights_of:
                weights.append(output.weights)
                cross_weights.append(output.cross_weights)
        if self.layer_norm is not None:
            hidden = self.layer_norm(hidden)
        return StackOutput(hidden, tuple(weights), tuple(cross_weights))

    def keys_and_values(self, encoded: Tensor) -> list[KeyValue]:
        """Return what each block of a decoder attends to in ``encoded``, shape (B, E, D)."""
        blocks = cast("list[SequenceBlock]", list(self.layers))
        return [block.encoder_attn.keys_and_values(encoded) for block in blocks]


class Body(nn.Module):
    """Both stacks, and the word vectors that they share if they do.

    Args:
        config: the sizes and options.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.shared = None
        if config.share_encoder_decoder_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = Stack(config, decoder=False)
        self.decoder = Stack(config, decoder=True)
