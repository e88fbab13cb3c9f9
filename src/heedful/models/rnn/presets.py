"""Sizes of the recurrent translator, by name."""

from typing import TypedDict


class RnnSizes(TypedDict):
    """Fields of an ``RnnConfig``."""

    embedding_width: int
    hidden_width: int


PRESETS: dict[str, RnnSizes] = {
    "tiny": {"embedding_width": 128, "hidden_width": 128},
    "small": {"embedding_width": 256, "hidden_width": 256},
    "base": {"embedding_width": 620, "hidden_width": 1000},
    "big": {"embedding_width": 1024, "hidden_width": 1024},
}
"""Base is from Bahdanau et al. 2015, appendix A.2.3; the other sizes are ours."""
