"""What can be asked of an export."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportSettings:
    """What only some formats have."""

    int8: bool = False
    """Keep the weights of products in 8 bits: a smaller file, faster on most CPUs, other scores."""
