"""Sizes of DistilBERT, by name."""

from typing import Any

from heedful.models.bert import presets

PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "n_layers": sizes["num_hidden_layers"] // 2,
        "dim": sizes["hidden_size"],
        "n_heads": sizes["num_attention_heads"],
        "hidden_dim": sizes["intermediate_size"],
    }
    for name, sizes in presets.PRESETS.items()
}
"""BERT's sizes with half the layers. Base is from Sanh et al. 2019."""
