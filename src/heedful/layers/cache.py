"""The KV cache of a decoder.

A block reads cached keys and values through the ``KVCache`` protocol. A ``Cache`` is immutable: a
call returns a new one and leaves its argument unchanged. A search uses trees instead, which it
changes in place: ``layers/tree_cache.py``.

Shapes: B batch, H heads, T key length, E length of the encoder's output, K head width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class KeyValue(NamedTuple):
    """Keys and values."""

    key: Tensor
    """Shape (B, H, T, K)."""
    value: Tensor
    """Shape (B, H, T, K)."""

    def extend(self, later: "KeyValue") -> "KeyValue":
        """Return these keys and values followed by later ones, along T."""
        return KeyValue(
            torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        )

    def select(self, rows: Tensor) -> "KeyValue":
        """Return the sequences with the given indices, shape (N,); see ``Cache.select``."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class KVCache(Protocol):
    """The cached keys and values of one block."""

    @property
    def length(self) -> int:
        """Number of cached tokens, which is the position of the next token."""

    @property
    def cross_attention(self) -> KeyValue | None:
        """Cached keys and values of cross-attention, if any. T is E."""

    def extend(self, new: KeyValue) -> KeyValue:
        """Return the cached keys and values followed by new ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCache:
    """The KV cache of one block."""

    self_attention: KeyValue
    """Keys and values of the decoder's tokens so far."""
    cross_attention: KeyValue | None = None
    """Keys and values of the encoder's tokens, if the block has cross-attention."""

    @property
    def length(self) -> int:
        """Number of cached tokens of the decoder: T."""
        return self.self_attention.key.shape[2]

    def extend(self, new: KeyValue) -> KeyValue:
        """Return the cached keys and values of self-attention followed by new ones."""
        return self.self_attention.extend(new)

    def select(self, rows: Tensor) -> "BlockCache":
        """Return the sequences with the given indices, shape (N,); see ``Cache.select``."""
        cross = self.cross_attention
        return BlockCache(
            self_attention=self.self_attention.select(rows),
            cross_attention=None if cross is None else cross.select(rows),
        )


KeysAndValues = tuple[Tensor, ...]
"""Keys and values of a block; in a block with cross-attention, followed by those of the encoder's
tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """The KV cache of all blocks.

    As in the reference, ``cache[0]`` is the pair of keys and values of the first block.
    """

    blocks: tuple[BlockCache, ...]
    """One per block, from the first to the last."""

    @property
    def length(self) -> int:
        """Number of cached tokens of the decoder."""
        return self.blocks[0].length if self.blocks else 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of cached tokens, which is the same for all blocks."""
        return self.length

    def to_legacy_cache(self) -> tuple[KeysAndValues, ...]:
        """Return the keys and values of each block."""
        return tuple(self)

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[KeysAndValues]:
        for block in self.blocks:
            yield (*block.self_attention, *(block.cross_attention or ()))

    def __getitem__(self, index: int) -> KeysAndValues:
        return self.to_legacy_cache()[index]

    def select(self, rows: Tensor) -> "Cache":
        """Return the sequences with the given indices, as beam search needs.

        Args:
            rows: int64, 0 to B - 1 in any order, with repetitions allowed. Shape (N,).

        Returns:
            A cache of N sequences.
        """
        return Cache(blocks=tuple(block.select(rows) for block in self.blocks))
