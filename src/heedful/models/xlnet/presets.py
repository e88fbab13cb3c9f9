"""Sizes of XLNet, by name (Yang et al. 2019, appendix A.4)."""


def _sizes(layers: int, width: int) -> dict[str, int]:
    return {"n_layer": layers, "d_model": width, "n_head": width // 64, "d_inner": 4 * width}


PRESETS: dict[str, dict[str, int]] = {
    "tiny": _sizes(2, 128),
    "mini": _sizes(4, 256),
    "small": _sizes(4, 512),
    "medium": _sizes(8, 512),
    "base": _sizes(12, 768),
    "large": _sizes(24, 1024),
}
"""Base and large are from the paper; the smaller presets have BERT's sizes."""
