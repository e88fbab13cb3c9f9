"""What the hypotheses of a search have computed, in a room that is fixed: no shape ever changes.

As in ``tree.py``, the keys and values of a token are kept once, as a node, and a mask says which
nodes a hypothesis is made of. But the newest tokens take nodes of their own at every step, and
which ones is a tensor, so that nothing of it is known to the host.

Shapes: B items, W hypotheses of each, M nodes that there is room for, E length of the encoder's
output, H heads, K head width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.layers.cache import KeyValue
from heedful.layers.stack import Stack


@dataclass(kw_only=True, slots=True, eq=False)
class FixedCache:
    """What all blocks have computed."""

    nodes: list[Tensor]
    """Keys and values of each block. Each of shape (2, B, H, M, K)."""
    crosses: list[KeyValue] | None = None
    """What each block attends to in an encoder's output, if it does. Shapes (B, H, E, K)."""
    cross_mask: Tensor | None = None
    """True for a token of that. Shape (B, 1, 1, E)."""

    def make_room(self, nodes: int) -> None:
        """Make room for a number of nodes: M."""
        # Zeros: a node that nobody sees has weight 0, and 0 times any number must be 0.
        self.nodes = [F.pad(block, (0, 0, 0, nodes - block.shape[3])) for block in self.nodes]

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep some nodes of each item, shape (B, M), int64, in that order; forget the others."""
        for number, block in enumerate(self.nodes):
            index = nodes[None, :, None, :, None]
            index = index.expand(2, -1, block.shape[2], -1, block.shape[4])
            self.nodes[number] = block.gather(3, index)

    def keep(self, items: Tensor) -> None:
        """Keep some items, shape (B,), int64, and forget the others."""
        self.nodes = [block.index_select(1, items) for block in self.nodes]
        if self.crosses is not None:
            self.crosses = [cross.select(items) for cross in self.crosses]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask.index_select(0, items)

    def blocks(self, newest: Tensor) -> list["FixedBlock"]:
        """Return what each block goes on from.

        Args:
            newest: the nodes of the newest tokens. Shape (W,), int64.
        """
        memories = [None] * len(self.nodes) if self.crosses is None else self.crosses
        return [
            FixedBlock(nodes=nodes, newest=newest, cross_attention=memory)
            for nodes, memory in zip(self.nodes, memories, strict=True)
        ]


def no_nodes(stack: Stack, batch: int) -> list[Tensor]:
    """Return the nodes of the blocks of a stack before there is any."""
    attentions = [block.attention.self for block in stack.blocks]
    return [
        each.key.weight.new_zeros(2, batch, len(each.heads), 0, each.head_width)
        for each in attentions
    ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FixedBlock:
    """What one block has computed: a ``Past`` of B sequences.

    The nodes stand in no order, so a block whose positions look at the places of keys cannot go on
    from it.
    """

    nodes: Tensor
    """Shape (2, B, H, M, K)."""
    newest: Tensor
    """Shape (W,), int64."""
    cross_attention: KeyValue | None

    @property
    def length(self) -> int:
        """How many tokens there are is not known to the host, and nothing here asks for it."""
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
