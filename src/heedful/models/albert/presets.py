"""Sizes of ALBERT, by name."""

from typing import Any

from heedful.models.bert.presets import sizes

PRESETS: dict[str, dict[str, Any]] = {
    name: {**numbers, "embedding_size": 128}
    for name, numbers in {
        "tiny": sizes(2, 128),
        "mini": sizes(4, 256),
        "base": sizes(12, 768),
        "large": sizes(24, 1024),
        "xlarge": {**sizes(24, 2048), "num_attention_heads": 16},
        "xxlarge": sizes(12, 4096),
    }.items()
}
"""Base to xxlarge are from Lan et al. 2020, table 1; tiny and mini are ours."""
