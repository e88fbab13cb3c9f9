"""The sizes of DistilBERT, by name."""

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
"""Those of BERT with half the layers. Base is that of Sanh et al. 2019."""
