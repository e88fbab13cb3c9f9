"""Sizes of DeBERTa, by name."""

from typing import Any

from heedful.models.bert.presets import sizes

OPTIONS: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ("c2p", "p2c"),
    "position_biased_input": False,
    "legacy": False,
    "enhanced_mask_decoder": True,
}
"""Options that all published models share."""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {**sizes(2, 128), **OPTIONS},
    "mini": {**sizes(4, 256), **OPTIONS},
    "base": {**sizes(12, 768), **OPTIONS},
    "large": {**sizes(24, 1024), **OPTIONS},
    "xlarge": {**sizes(48, 1024), **OPTIONS},
}
"""Base and large are from He et al. 2021, table 8 (a). Xlarge was published later. Tiny and mini
are ours."""

GENERATOR_SIZES = dict.fromkeys(PRESETS, 1 / 2)
"""Depth of the generator as a share of the discriminator's depth (He et al. 2023, section 4.1)."""
