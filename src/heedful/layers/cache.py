"""Keys and values that a decoder has computed, so that later calls need not.

A cache is a value: a call returns a new one, and leaves the one that it was given as it was.

Shapes: B batch, H heads, T key length, K head width.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class KeyValue(NamedTuple):
    """What queries attend to."""

    key: Tensor
    """Shape (B, H, T, K)."""
    value: Tensor
    """Shape (B, H, T, K)."""

    def extend(self, later: "KeyValue") -> "KeyValue":
        """Return these, followed by later ones along T."""
        return KeyValue(
            torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        )

    def select(self, rows: Tensor) -> "KeyValue":
        """Return the sequences of the given numbers, shape (N,); see ``Cache.select``."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCache:
    """What one block has computed."""

    own: KeyValue
    """Of the decoder's tokens so far."""
    cross: KeyValue | None = None
    """Of the encoder's tokens, if the block attends to them."""

    def select(self, rows: Tensor) -> "BlockCache":
        """Return the sequences of the given numbers, shape (N,); see ``Cache.select``."""
        cross = None if self.cross is None else self.cross.select(rows)
        return BlockCache(own=self.own.select(rows), cross=cross)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """What all blocks have computed."""

    blocks: tuple[BlockCache, ...]
    """One a block, from the first to the last."""

    @property
    def length(self) -> int:
        """How many tokens of the decoder it holds: T of ``own``."""
        return self.blocks[0].own.key.shape[2] if self.blocks else 0

    def select(self, rows: Tensor) -> "Cache":
        """Return the sequences of the given numbers, as a beam search needs.

        Args:
            rows: int64, 0 to B - 1 in any order, any of them several times. Shape (N,).

        Returns:
            A cache of N sequences.
        """
        return Cache(blocks=tuple(block.select(rows) for block in self.blocks))
