"""Sizes of RoBERTa, by name."""

from typing import Any

from heedful.models.bert import presets

_TOKENS = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}

PRESETS: dict[str, dict[str, Any]] = {
    name: {**sizes, **_TOKENS} for name, sizes in presets.PRESETS.items()
}
"""Base and large are from Liu et al. 2019; the smaller sizes are BERT's."""
