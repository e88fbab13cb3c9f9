"""The published sizes of BERT and of the Transformer, by name."""

from typing import TypedDict


class Sizes(TypedDict):
    """Fields of a ``BertConfig``."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int


def _sizes(layers: int, width: int) -> Sizes:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


PRESETS: dict[str, Sizes] = {
    "tiny": _sizes(2, 128),
    "mini": _sizes(4, 256),
    "small": _sizes(4, 512),
    "medium": _sizes(8, 512),
    "base": _sizes(12, 768),
    "large": _sizes(24, 1024),
}
"""Base and large are those of Devlin et al. 2019, the smaller ones those of Turc et al. 2019."""


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


TRANSFORMER_PRESETS: dict[str, TransformerSizes] = {
    "tiny": _transformer(2, 128, 4),
    "small": _transformer(3, 256, 4),
    "base": _transformer(6, 512, 8),
    "big": _transformer(6, 1024, 16),
}
"""Base and big are those of Vaswani et al. 2017, table 3; the smaller ones are ours."""


class RnnSizes(TypedDict):
    """Fields of an ``RnnConfig``."""

    embedding_width: int
    hidden_width: int


RNN_PRESETS: dict[str, RnnSizes] = {
    "tiny": {"embedding_width": 128, "hidden_width": 128},
    "small": {"embedding_width": 256, "hidden_width": 256},
    "base": {"embedding_width": 620, "hidden_width": 1000},
    "big": {"embedding_width": 1024, "hidden_width": 1024},
}
"""Base is that of Bahdanau et al. 2015, appendix A.2.3; the others are ours."""
