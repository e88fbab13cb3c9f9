"""What the hypotheses of a search have computed: for each item one tree, whose nodes they share.

The hypotheses of a beam differ in their last tokens; before those they are one. So the keys and
values of a token are kept once, whatever goes on from it, and a mask says which nodes a hypothesis
is made of. Going on in another order, which a beam does nearly every step, then changes that mask,
and moves no keys. To attention the hypotheses of an item are the queries of one sequence.

Shapes: N hypotheses, B items, W most hypotheses of an item, L blocks, M nodes of an item, C nodes
that there is room for, H heads, K head width.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.layers.cache import KeyValue

_ROOM = 8  # steps that there is room for after nodes were moved


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where each hypothesis stands in a grid of items by their hypotheses."""

    items: Tensor
    """The item of each hypothesis. Shape (N,)."""
    cells: Tensor | None
    """Its place in the grid, row by row; None where the hypotheses are the grid. Shape (N,)."""
    batch: int
    """B."""
    width: int
    """W."""

    @classmethod
    def of(cls, items: Tensor) -> "Places":
        """Find the places of hypotheses whose items, 0 to B - 1, are given. Shape (N,)."""
        counts = items.bincount()  # (B,)
        batch, width = len(counts), int(counts.max())
        order = items.argsort(stable=True)
        starts = counts.cumsum(0) - counts
        ranks = torch.empty_like(items)
        ranks[order] = torch.arange(len(items), device=items.device) - starts[items[order]]
        cells = items * width + ranks
        plain = torch.equal(cells, torch.arange(batch * width, device=items.device))
        return cls(items=items, cells=None if plain else cells, batch=batch, width=width)

    def spread(self, rows: Tensor) -> Tensor:
        """Put what each hypothesis has, shape (N, ...), into the grid: shape (B, W, ...)."""
        if self.cells is not None:
            grid = rows.new_zeros(self.batch * self.width, *rows.shape[1:])
            rows = grid.index_copy(0, self.cells, rows)
        return rows.view(self.batch, self.width, *rows.shape[1:])

    def collect(self, grid: Tensor) -> Tensor:
        """Take what each hypothesis has, shape (N, ...), out of the grid: the inverse."""
        rows = grid.flatten(0, 1)
        return rows if self.cells is None else rows.index_select(0, self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The trees of all items, as a value; only the newest of those that share memory may grow."""

    nodes: Tensor
    """Keys and values, of which the first M are there. Shape (L, B, C, 2, H, K)."""
    seen: Tensor
    """Which nodes each hypothesis is made of. Shape (N, M), bool."""
    places: Places

    @classmethod
    def start(cls, batch: int, *, blocks: int, heads: int, head_width: int, like: Tensor) -> "Tree":
        """Return trees without a node, of one hypothesis each.

        Args:
            batch: B.
            blocks: L.
            heads: H.
            head_width: K.
            like: gives the type and the device.
        """
        return cls(
            nodes=like.new_empty(blocks, batch, 0, 2, heads, head_width),
            seen=torch.empty(batch, 0, dtype=torch.bool, device=like.device),
            places=Places.of(torch.arange(batch, device=like.device)),
        )

    def grow(self) -> "Tree":
        """Return the trees with a node more for each hypothesis, to be set by ``remember``."""
        places, used = self.places, self.seen.shape[1]
        own = torch.eye(places.width, dtype=torch.bool, device=self.seen.device)
        own = own.repeat(places.batch, 1)  # (B W, W)
        if places.cells is not None:
            own = own[places.cells]  # (N, W)
        nodes = self.nodes
        if used + places.width > nodes.shape[2]:
            room = nodes.new_empty(*nodes.shape[:2], _ROOM * places.width, *nodes.shape[3:])
            nodes = torch.cat([nodes, room], 2)
        return Tree(nodes=nodes, seen=torch.cat([self.seen, own], 1), places=places)

    @property
    def mask(self) -> Tensor:
        """Which nodes each hypothesis attends to. Shape (B, 1, W, M), bool."""
        return self.places.spread(self.seen)[:, None]

    def remember(self, block: int, new: KeyValue) -> KeyValue:
        """Set the newest nodes of a block, and return all of its nodes.

        Args:
            block: its number.
            new: shapes (B, H, W, K).

        Returns:
            Shapes (B, H, M, K).
        """
        used = self.seen.shape[1]
        nodes = self.nodes[block, :, :used].permute(2, 0, 3, 1, 4)  # (2, B, H, M, K)
        newest = nodes[:, :, :, used - self.places.width :]
        newest[0].copy_(new.key)
        newest[1].copy_(new.value)
        return KeyValue(nodes[0], nodes[1])

    def select(self, rows: Tensor) -> tuple["Tree", Tensor]:
        """Return the trees of some hypotheses, and which of the items are left, shape (B,).

        Args:
            rows: numbers of hypotheses, in any order, any of them several times. Shape (N,).
        """
        items = self.places.items.index_select(0, rows)
        left, items = torch.unique(items, return_inverse=True)
        places = Places.of(items)
        tree = replace(self, seen=self.seen.index_select(0, rows), places=places)
        full = tree.seen.shape[1] + places.width > self.nodes.shape[2]
        if full or places.batch < self.places.batch:
            tree = tree._tidy(left)
        return tree, left

    def _tidy(self, left: Tensor) -> "Tree":
        """Drop the nodes that no hypothesis is made of; ``left`` are the items that stay."""
        places = self.places
        alive = self.seen.new_zeros(places.batch, self.seen.shape[1], dtype=torch.int32)
        alive = alive.index_add_(0, places.items, self.seen.int()) > 0  # (B, M)
        used = int(alive.sum(1).max())
        order = alive.byte().argsort(dim=1, descending=True, stable=True)[:, :used]
        # What there is room for is filled with nodes, too: a copy that leaves gaps takes longer.
        chosen = F.pad(order, (0, _ROOM * places.width))  # (B, C)
        blocks, _, room = self.nodes.shape[:3]
        chosen = (chosen + room * left[:, None]).flatten()
        nodes = self.nodes.flatten(1, 2).index_select(1, chosen)
        return Tree(
            nodes=nodes.view(blocks, places.batch, -1, *self.nodes.shape[3:]),
            seen=self.seen.gather(1, order.index_select(0, places.items)),
            places=places,
        )
