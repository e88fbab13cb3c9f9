"""Export settings."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportSettings:
    """Options that only some formats have."""

    int8: bool = False
    """Store the weights of linear layers in 8 bits: smaller, faster on most CPUs, less exact."""
