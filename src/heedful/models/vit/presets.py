"""Sizes of ViT, by name (Dosovitskiy et al. 2021, table 1; Touvron et al. 2021, table 1)."""


def _sizes(layers: int, width: int, heads: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }


PRESETS: dict[str, dict[str, int]] = {
    "mini": _sizes(4, 96, 4),
    "tiny": _sizes(12, 192, 3),
    "small": _sizes(12, 384, 6),
    "base": _sizes(12, 768, 12),
    "large": _sizes(24, 1024, 16),
    "huge": _sizes(32, 1280, 16),
}
"""Base, large and huge are ViT's sizes, tiny and small are DeiT's. Mini is for a CPU and a few
thousand small images."""
