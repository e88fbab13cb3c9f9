"""Sizes of MPNet, by name."""

from typing import Any

from heedful.models.bert import presets

PRESETS: dict[str, dict[str, Any]] = {
    name: {**sizes, "layer_norm_eps": 1e-5} for name, sizes in presets.PRESETS.items()
}
"""Base is from Song et al. 2020; the other sizes are BERT's."""
