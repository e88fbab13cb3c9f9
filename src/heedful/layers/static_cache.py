"""The KV cache of a beam search with fixed capacity: no shape changes between steps.

As in ``tree_cache.py``, the keys and values of a token are stored once, as a node. A mask says
which nodes belong to a hypothesis. Here the newest tokens get new nodes at every step. The indices
of these nodes are a tensor, so the host need not know them.

Shapes: B items, W hypotheses per item, M capacity in nodes, E length of the encoder's output, H
heads, K head width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.layers.cache import KeyValue
from heedful.layers.stack import Stack


@dataclass(kw_only=True, slots=True, eq=False)
class FixedCache:
    """The KV cache of all blocks."""

    nodes: list[Tensor]
    """Keys and values of each block. Each of shape (2, B, H, M, K)."""
    crosses: list[KeyValue] | None = None
    """Cross-attention keys and values of each block, if any. Shapes (B, H, E, K)."""
    cross_mask: Tensor | None = None
    """True for a token of the encoder, False for padding. Shape (B, 1, 1, E)."""

    def make_room(self, nodes: int) -> None:
        """Grow the capacity to M nodes."""
        # Pad with zeros: unused nodes get weight 0, and 0 times NaN would not be 0.
        self.nodes = [F.pad(block, (0, 0, 0, nodes - block.shape[3])) for block in self.nodes]

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep the given nodes of each item, shape (B, M), int64, in this order."""
        for number, block in enumerate(self.nodes):
            index = nodes[None, :, None, :, None]
            index = index.expand(2, -1, block.shape[2], -1, block.shape[4])
            self.nodes[number] = block.gather(3, index)

    def keep(self, items: Tensor) -> None:
        """Keep only the given items, shape (B,), int64."""
        self.nodes = [block.index_select(1, items) for block in self.nodes]
        if self.crosses is not None:
            self.crosses = [cross.select(items) for cross in self.crosses]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask.index_select(0, items)

    def blocks(self, newest: Tensor) -> list["FixedBlock"]:
        """Return the KV cache of each block.

        Args:
            newest: the nodes of the newest tokens. Shape (W,), int64.
        """
        memories = [None] * len(self.nodes) if self.crosses is None else self.crosses
        return [
            FixedBlock(nodes=nodes, newest=newest, cross_attention=memory)
            for nodes, memory in zip(self.nodes, memories, strict=True)
        ]


def no_nodes(stack: Stack, batch: int) -> list[Tensor]:
    """Return the empty KV cache of each block of a stack."""
    attentions = [block.attention.self for block in stack.blocks]
    return [
        next(each.key.parameters()).new_zeros(2, batch, len(each.heads), 0, each.head_width)
        for each in attentions
    ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FixedBlock:
    """The KV cache of one block: a ``KVCache`` of B sequences.

    The nodes are unordered, so a block whose scores depend on key positions cannot use this cache.
    """

    nodes: Tensor
    """Shape (2, B, H, M, K)."""
    newest: Tensor
    """Shape (W,), int64."""
    cross_attention: KeyValue | None

    @property
    def length(self) -> int:
        """Always 0: the host does not know the number of tokens, and no caller needs it."""
        return 0

    def extend(self, new: KeyValue) -> KeyValue:
        """Fill the newest nodes, and return all nodes.

        Args:
            new: shapes (B, H, W, K).

        Returns:
            Shapes (B, H, M, K).
        """
        self.nodes.index_copy_(3, self.newest, torch.stack(new))
        return KeyValue(self.nodes[0], self.nodes[1])
