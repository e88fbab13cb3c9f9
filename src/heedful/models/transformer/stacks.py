"""Build, prune and initialise a Transformer's encoder and decoder stacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from heedful.layers.block import Block
from heedful.layers.residual import BlockOptions
from heedful.layers.stack import Stack
from heedful.models import pruning
from heedful.models.configs import remaining, renumber_pruned
from heedful.models.transformer.config import TransformerConfig


def encoder(config: TransformerConfig) -> Stack:
    """Return a new encoder stack."""
    heads = config.encoder_attention_heads
    options = _block_options(config, heads, config.encoder_ffn_dim)
    blocks = (
        Block(options, heads=remaining(heads, config.pruned_heads, number))
        for number in range(config.encoder_layers)
    )
    return Stack(blocks, _final_norm(config))


def decoder(config: TransformerConfig) -> Stack:
    """Return a new decoder stack."""
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
        is_pre_norm=config.normalize_before,
        chunk_size=config.chunk_size_feed_forward,
    )


def _final_norm(config: TransformerConfig) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.d_model) if config.normalize_before else None


def keep(
    encoder: Stack, decoder: Stack, config: TransformerConfig, indices: Sequence[int]
) -> TransformerConfig:
    """Keep only the given blocks of both stacks, and return the new configuration.

    Args:
        encoder: changed in place.
        decoder: changed in place.
        config: configuration before the change.
        indices: indices of the blocks to keep, the same in both stacks.
    """
    encoder.keep(indices)
    decoder.keep(indices)
    return replace(
        config,
        encoder_layers=len(indices),
        decoder_layers=len(indices),
        pruned_heads=renumber_pruned(config.pruned_heads, indices),
        decoder_pruned_heads=renumber_pruned(config.decoder_pruned_heads, indices),
        cross_attn_pruned_heads=renumber_pruned(config.cross_attn_pruned_heads, indices),
    )


def prune(
    encoder: Stack,
    decoder: Stack,
    config: TransformerConfig,
    heads: Mapping[int, Sequence[int]],
    decoder_heads: Mapping[int, Sequence[int]],
    cross_attn_heads: Mapping[int, Sequence[int]],
) -> TransformerConfig:
    """Prune attention heads, and return the new configuration.

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
    for attentions, to_prune in parts.values():
        pruning.check_heads(attentions, to_prune)
    pruned: dict[str, Any] = {
        name: pruning.prune_heads(attentions, to_prune, getattr(config, name))
        for name, (attentions, to_prune) in parts.items()
    }
    return replace(config, **pruned)


def initialise(model: nn.Module, lm_head: nn.Linear | None) -> None:
    """Initialise the weights at random.

    Linear layers are Xavier uniform (Glorot and Bengio 2010, equation 16). Embeddings are normal
    with vectors of about unit length.

    Args:
        model: a Transformer.
        lm_head: its output layer, unless that is tied to the embeddings.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            assert module.padding_idx is not None
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()
    if lm_head is not None:
        nn.init.normal_(lm_head.weight, std=lm_head.in_features**-0.5)
