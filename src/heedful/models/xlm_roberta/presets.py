"""Sizes of XLM-RoBERTa, by name: those of RoBERTa (Conneau et al. 2020, section 3)."""

from heedful.models.roberta.presets import PRESETS as PRESETS
