"""Sizes of ERNIE, by name."""

from heedful.models.bert.presets import PRESETS as PRESETS
