"""Sizes of GPT-2, by name (Radford et al. 2019, table 2)."""


def _sizes(layers: int, width: int) -> dict[str, int]:
    return {"n_layer": layers, "n_embd": width, "n_head": width // 64}


PRESETS: dict[str, dict[str, int]] = {
    "tiny": _sizes(2, 128),
    "mini": _sizes(4, 256),
    "small": _sizes(4, 512),
    "medium": _sizes(8, 512),
    "base": _sizes(12, 768),
    "large": _sizes(24, 1024),
}
"""Base and large are the paper's 117M and 345M; the smaller presets have BERT's sizes."""
