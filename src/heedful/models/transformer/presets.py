"""Sizes of the Transformer, by name."""

from typing import TypedDict


class TransformerSizes(TypedDict):
    """Fields of a ``TransformerConfig``."""

    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int


def _transformer(layers: int, width: int, heads: int) -> TransformerSizes:
    return {
        "d_model": width,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
    }


PRESETS: dict[str, TransformerSizes] = {
    "tiny": _transformer(2, 128, 4),
    "small": _transformer(3, 256, 4),
    "base": _transformer(6, 512, 8),
    "big": _transformer(6, 1024, 16),
}
"""Base and big are from Vaswani et al. 2017, table 3; the smaller sizes are ours."""
