"""Sizes of DeBERTa v2 and v3, by name."""

from typing import Any

from heedful.models.bert.presets import sizes
from heedful.models.deberta.presets import OPTIONS

_OPTIONS: dict[str, Any] = {
    **OPTIONS,
    "position_buckets": 256,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
}

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {**sizes(2, 128), **_OPTIONS},
    "mini": {**sizes(4, 256), **_OPTIONS},
    "xsmall": {**sizes(12, 384), **_OPTIONS},
    "small": {**sizes(6, 768), **_OPTIONS},
    "base": {**sizes(12, 768), **_OPTIONS},
    "large": {**sizes(24, 1024), **_OPTIONS},
    "xlarge": {**sizes(24, 1536), **_OPTIONS},
    "xxlarge": {**sizes(48, 1536), **_OPTIONS, "conv_kernel_size": 3, "conv_act": "gelu"},
}
"""Xsmall to large are sizes of version 3 (He et al. 2023), xlarge and xxlarge of version 2. Tiny
and mini are ours."""

GENERATOR_SIZES = dict.fromkeys(PRESETS, 1 / 2)
"""Depth of the generator as a share of the discriminator's depth (He et al. 2023, section 4.1)."""
