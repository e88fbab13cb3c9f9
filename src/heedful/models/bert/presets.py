"""Published sizes of BERT, by name."""

from typing import TypedDict


class Sizes(TypedDict):
    """Fields of a ``BertConfig``."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int


def sizes(layers: int, width: int) -> Sizes:
    """Return the sizes of an encoder with heads of width 64."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


PRESETS: dict[str, Sizes] = {
    "tiny": sizes(2, 128),
    "mini": sizes(4, 256),
    "small": sizes(4, 512),
    "medium": sizes(8, 512),
    "base": sizes(12, 768),
    "large": sizes(24, 1024),
}
"""Base and large are from Devlin et al. 2019, the smaller sizes from Turc et al. 2019."""
