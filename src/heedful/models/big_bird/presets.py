"""Sizes of BigBird, by name."""

from typing import Any

from heedful.models.bert import presets

PRESETS: dict[str, dict[str, Any]] = {name: {**sizes} for name, sizes in presets.PRESETS.items()}
"""Base and large are from Zaheer et al. 2020; the smaller sizes are BERT's."""
