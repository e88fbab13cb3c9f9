"""The two stacks of blocks of a Transformer: made, cut down, and their fresh weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from heedful.layers.block import Block, BlockOptions
from heedful.layers.stack import Stack
from heedful.models import pruning
from heedful.models.configs import remaining, renumbered
from heedful.models.transformer.config import TransformerConfig


def encoder(config: TransformerConfig) -> Stack:
    """Return the blocks that read."""
    heads = config.encoder_attention_heads
    options = _block_options(config, heads, config.encoder_ffn_dim)
    blocks = (
        Block(options, heads=remaining(heads, config.pruned_heads, number))
        for number in range(config.encoder_layers)
    )
    return Stack(blocks, _final_norm(config))


def decoder(config: TransformerConfig) -> Stack:
    """Return the blocks that write."""
    heads = config.decoder_attention_heads
    options = _block_options(config, heads, config.decoder_ffn_dim)
    blocks = (
        Block(
            options,
            heads=remaining(heads, config.decoder_pruned_heads, number),
            cross_heads=remaining(heads, config.cross_attn_pruned_heads, number),
        )
        for number in range(config.decoder_layers)
    )
    return Stack(blocks, _final_norm(config))


def _block_options(config: TransformerConfig, heads: int, inner_width: int) -> BlockOptions:
    return BlockOptions(
        width=config.d_model,
        head_width=config.d_model // heads,
        inner_width=inner_width,
        activation=config.activation_function,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        norm_before=config.normalize_before,
        chunk=config.chunk_size_feed_forward,
    )


def _final_norm(config: TransformerConfig) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.d_model) if config.normalize_before else None


def keep(
    encoder: Stack, decoder: Stack, config: TransformerConfig, numbers: Sequence[int]
) -> TransformerConfig:
    """Keep some of the blocks of both, and return what the configuration is then."""
    encoder.keep(numbers)
    decoder.keep(numbers)
    return replace(
        config,
        encoder_layers=len(numbers),
        decoder_layers=len(numbers),
        pruned_heads=renumbered(config.pruned_heads, numbers),
        decoder_pruned_heads=renumbered(config.decoder_pruned_heads, numbers),
        cross_attn_pruned_heads=renumbered(config.cross_attn_pruned_heads, numbers),
    )


def prune(
    encoder: Stack,
    decoder: Stack,
    config: TransformerConfig,
    heads: Mapping[int, Sequence[int]],
    decoder_heads: Mapping[int, Sequence[int]],
    cross_attn_heads: Mapping[int, Sequence[int]],
) -> TransformerConfig:
    """Take attention heads out, and return what the configuration is then.

    Raises:
        UserError: see ``Transformer.prune_heads``.
    """
    parts = {
        "pruned_heads": ([block.attention for block in encoder.blocks], heads),
        "decoder_pruned_heads": ([block.attention for block in decoder.blocks], decoder_heads),
        "cross_attn_pruned_heads": (
            [block.crossattention for block in decoder.blocks],
            cross_attn_heads,
        ),
    }
    for attentions, gone in parts.values():
        pruning.check_heads(attentions, gone)
    pruned: dict[str, Any] = {
        name: pruning.prune_heads(attentions, gone, getattr(config, name))
        for name, (attentions, gone) in parts.items()
    }
    return replace(config, **pruned)


def initialise(model: nn.Module, lm_head: nn.Linear | None) -> None:
    """Draw fresh weights.

    Those of products are uniform, as wide as the widths say (Glorot and Bengio 2010, equation 16),
    those of words normal and of about unit length.

    Args:
        model: a Transformer.
        lm_head: its layer that scores words, if it has one of its own.
    """
    for part in model.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
            assert part.padding_idx is not None
            with torch.no_grad():
                part.weight[part.padding_idx].zero_()
    if lm_head is not None:
        nn.init.normal_(lm_head.weight, std=lm_head.in_features**-0.5)
