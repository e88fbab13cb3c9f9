"""Keys and values that a decoder has computed, so that later calls need not.

A block asks a ``Past`` for them, however they are kept. A ``Cache`` is a value: a call returns a
new one, and leaves the one that it was given as it was. A search keeps them in trees, which it
changes: ``layers/tree.py``.

Shapes: B batch, H heads, T key length, E length of the encoder's output, K head width.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


class Past(Protocol):
    """What a block has computed before."""

    @property
    def length(self) -> int:
        """How many tokens there are, which is the position of the next."""

    @property
    def cross_attention(self) -> KeyValue | None:
        """What the block attends to in an encoder's output, if that is kept. T is E."""

    def extend(self, new: KeyValue) -> KeyValue:
        """Return what newer tokens attend to: the tokens so far and those."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCache:
    """What one block has computed."""

    self_attention: KeyValue
    """Of the decoder's tokens so far."""
    cross_attention: KeyValue | None = None
    """Of the encoder's tokens, if the block attends to them."""

    @property
    def length(self) -> int:
        """How many tokens of the decoder it holds: T."""
        return self.self_attention.key.shape[2]

    def extend(self, new: KeyValue) -> KeyValue:
        """Return the keys and values of the decoder's tokens so far and of newer ones."""
        return self.self_attention.extend(new)

    def select(self, rows: Tensor) -> "BlockCache":
        """Return the sequences of the given numbers, shape (N,); see ``Cache.select``."""
        cross = self.cross_attention
        return BlockCache(
            self_attention=self.self_attention.select(rows),
            cross_attention=None if cross is None else cross.select(rows),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """What all blocks have computed."""

    blocks: tuple[BlockCache, ...]
    """One a block, from the first to the last."""

    @property
    def length(self) -> int:
        """How many tokens of the decoder it holds."""
        return self.blocks[0].length if self.blocks else 0

    def select(self, rows: Tensor) -> "Cache":
        """Return the sequences of the given numbers, as a beam search needs.

        Args:
            rows: int64, 0 to B - 1 in any order, any of them several times. Shape (N,).

        Returns:
            A cache of N sequences.
        """
        return Cache(blocks=tuple(block.select(rows) for block in self.blocks))
