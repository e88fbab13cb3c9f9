"""The published sizes of BERT, by name."""

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
