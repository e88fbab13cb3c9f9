"""Sizes of ELECTRA, by name."""

from typing import Any

from heedful.models.bert.presets import sizes

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {**sizes(2, 128), "embedding_size": 128},
    "mini": {**sizes(4, 256), "embedding_size": 128},
    "small": {**sizes(12, 256), "embedding_size": 128},
    "base": {**sizes(12, 768), "embedding_size": 768},
    "large": {**sizes(24, 1024), "embedding_size": 1024},
}
"""Small, base and large are from Clark et al. 2020, table 6; tiny and mini are ours."""

GENERATOR_SIZES = {"tiny": 1 / 2, "mini": 1 / 2, "small": 1 / 4, "base": 1 / 3, "large": 1 / 4}
"""Width of the generator as a share of the discriminator's width, from the same sources."""
