"""What the hypotheses of a search have computed: for each item one tree, whose nodes they share.

The hypotheses of a beam differ in their last tokens only. So the keys and values of each token are
kept once, and a mask says which nodes a hypothesis is made of. A beam continues its hypotheses in
another order at nearly every step; that changes the mask and moves no keys. To attention, the
hypotheses of an item are the queries of one sequence.

Which node belongs to what is kept in arrays, not tensors: they are small, and there are many steps.

Shapes: N hypotheses, B items, W most hypotheses of an item, L blocks, M nodes that there is room
for, E length of the encoder's output, H heads, K head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.layers.cache import KeyValue

_ROOM = 16
"""How many nodes room is made for at once. All nodes are copied each time, so that those of a head
have no gaps between them: products in half precision would copy them first, each time."""


_STEP = 8


def rounded_up(count: int) -> int:
    """Return how many rows to compute where only ``count`` are wanted: few sizes occur in a search.

    The first product of another size makes a kernel, which takes longer than most products.

    Args:
        count: at least 1.
    """
    if count < _STEP:
        return 1 << (count - 1).bit_length()
    return -(-count // _STEP) * _STEP


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grid:
    """Hypotheses laid out as rows of items, each with as many cells as the largest item needs."""

    items: NDArray[np.int64]
    """The item of each hypothesis. Shape (N,)."""
    cells: NDArray[np.int64] | None
    """The number of its cell, row by row; None where the hypotheses fill the grid. Shape (N,)."""
    batch: int
    """B."""
    width: int
    """W."""

    @classmethod
    def of(cls, items: NDArray[np.int64], batch: int) -> "Grid":
        """Lay out hypotheses.

        Args:
            items: the item of each, 0 to B - 1. Shape (N,).
            batch: B. Rows of items without a hypothesis are empty.
        """
        counts = np.bincount(items, minlength=batch)  # (B,)
        width = int(counts.max())
        order = items.argsort(kind="stable")
        starts = counts.cumsum() - counts
        cells = np.empty_like(items)
        cells[order] = np.arange(len(items)) + (np.arange(batch) * width - starts)[items[order]]
        plain = np.array_equal(cells, np.arange(batch * width))
        return cls(items=items, cells=None if plain else cells, batch=batch, width=width)

    def spread(self, rows: Tensor) -> Tensor:
        """Put what each hypothesis has, shape (N, ...), into the grid: shape (B, W, ...)."""
        if self.cells is not None:
            grid = rows.new_zeros(self.batch * self.width, *rows.shape[1:])
            rows = grid.index_copy(0, torch.from_numpy(self.cells).to(rows.device), rows)
        return rows.view(self.batch, self.width, *rows.shape[1:])

    def collect(self, grid: Tensor) -> Tensor:
        """Take what each hypothesis has, shape (N, ...), out of the grid; undoes ``spread``."""
        rows = grid.flatten(0, 1)
        if self.cells is None:
            return rows
        return rows.index_select(0, torch.from_numpy(self.cells).to(rows.device))

    def spread_array(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Do as ``spread`` with an array."""
        if self.cells is not None:
            grid = np.zeros((self.batch * self.width, *rows.shape[1:]), dtype=rows.dtype)
            grid[self.cells] = rows
            rows = grid
        return rows.reshape(self.batch, self.width, *rows.shape[1:])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Compaction:
    """How items close up after some have left: the last items move to the free rows.

    All others stay where they are, so that little is copied however much is kept of an item. Some
    that have left stay, too, so that as many are kept as ``rounded_up`` says.
    """

    free: NDArray[np.int64]
    """The rows of items that are given up. Shape (G,)."""
    moved: NDArray[np.int64]
    """The items that move there. Shape (G,)."""
    numbers: NDArray[np.int64]
    """The new number of each item; of those that are given up it means nothing. Shape (B,)."""
    remaining: int
    """How many items are kept."""

    @classmethod
    def of(cls, items: NDArray[np.int64], batch: int) -> "Compaction | None":
        """Plan the moves when some of the items 0 to ``batch`` - 1 have left; None if all are kept.

        Args:
            items: those that remain, any of them several times. Shape (N,).
            batch: how many there were.
        """
        stays = np.bincount(items, minlength=batch) > 0  # (B,)
        active = int(stays.sum())
        remaining = min(rounded_up(active), batch)
        if remaining == batch:
            return None
        stays[np.flatnonzero(~stays)[: remaining - active]] = True
        free = np.flatnonzero(~stays[:remaining])
        moved = np.flatnonzero(stays[remaining:]) + remaining
        numbers = np.arange(batch)
        numbers[moved] = free
        return cls(free=free, moved=moved, numbers=numbers, remaining=remaining)

    def apply(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Move what is kept of the items in place, and return the part in use.

        Args:
            rows: what is kept.
            dim: the dimension of the items.
        """
        items = rows.movedim(dim, 0)
        free, moved = (torch.from_numpy(part).to(rows.device) for part in (self.free, self.moved))
        items[free] = items[moved]
        return rows.narrow(dim, 0, self.remaining)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tree:
    """The trees of all items. Only the newest may be used: a tree grows where older ones were."""

    nodes: tuple[Tensor, ...]
    """Keys and values of each block; those of a head side by side, which is how they are read. Each
    of shape (2, B, H, M, K)."""
    seen: NDArray[np.bool_]
    """Which nodes each hypothesis is made of. Shape (N, M)."""
    newest: NDArray[np.int64]
    """The nodes of the newest tokens. Shape (B, W)."""
    grid: Grid
    length: int
    """How many tokens each hypothesis has, the newest included."""

    @classmethod
    def start(cls, batch: int, *, heads: Sequence[int], head_width: int, like: Tensor) -> "Tree":
        """Return trees without a node, of one hypothesis each.

        Args:
            batch: B.
            heads: H of each block.
            head_width: K.
            like: gives the type and the device.
        """
        items = np.arange(batch)
        return cls(
            nodes=tuple(like.new_zeros(2, batch, number, 0, head_width) for number in heads),
            seen=np.zeros((batch, 0), dtype=np.bool_),
            newest=items[:, None],
            grid=Grid.of(items, batch),
            length=0,
        )

    def grow(self) -> "Tree":
        """Return the trees with a new node for each hypothesis, which ``fill`` fills.

        It takes the place of a node that no hypothesis is made of any more, where there is one.
        """
        grid, nodes = self.grid, self.nodes
        alive = np.asarray(grid.spread_array(self.seen).any(1))  # (B, M)
        # Items that have left fill the nodes that others fill, which is the same place mostly.
        alive[~alive.any(1)] = alive[grid.items[0]]
        room = alive.shape[1]
        needed = grid.width + (int(alive.sum(1).max()) if room else 0)
        more = max(0, -(-(needed - room) // _ROOM) * _ROOM)
        seen = np.pad(self.seen, ((0, 0), (0, more)))  # a copy: older trees keep theirs
        if more:
            # Zeros: a node that nobody sees has weight 0, and 0 times any number must be 0.
            nodes = tuple(F.pad(block, (0, 0, 0, more)) for block in nodes)
            alive = np.pad(alive, ((0, 0), (0, more)))
        newest = alive.argsort(axis=1, kind="stable")[:, : grid.width]  # (B, W)
        cells = newest.reshape(-1)
        seen[np.arange(len(seen)), cells if grid.cells is None else cells[grid.cells]] = True
        return Tree(nodes=nodes, seen=seen, newest=newest, grid=grid, length=self.length + 1)

    def fill(self, block: int, new: Tensor) -> Tensor:
        """Fill the newest nodes of a block, and return all.

        Args:
            block: its number.
            new: keys and values. Shape (B, W, 2, H, K).

        Returns:
            Shape (2, B, H, M, K).
        """
        nodes = self.nodes[block]
        first, width = int(self.newest[0, 0]), self.newest.shape[1]
        if (self.newest == np.arange(first, first + width)).all():
            nodes.narrow(3, first, width).copy_(new.permute(2, 0, 3, 1, 4))
        else:
            newest = torch.from_numpy(self.newest).to(nodes.device)
            items = torch.arange(len(newest), device=nodes.device)[:, None]
            nodes.permute(1, 3, 0, 2, 4)[items, newest] = new
        return nodes

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which nodes each hypothesis attends to; none in cells without one. Shape (B, W, M)."""
        return self.grid.spread_array(self.seen)

    def blocks(self, crosses: Sequence[Tensor]) -> list["BlockTree"]:
        """Return what each block goes on from.

        Args:
            crosses: the keys and values that each block attends to in the encoder's output of each
                item. Each of shape (2, B, H, E, K).
        """
        return [
            BlockTree(tree=self, block=number, cross_attention=KeyValue(cross[0], cross[1]))
            for number, cross in enumerate(crosses)
        ]

    def select(self, rows: NDArray[np.int64]) -> tuple["Tree", "Compaction | None"]:
        """Return the trees of some hypotheses, and how the items that remain close up.

        Args:
            rows: numbers of hypotheses, in any order, any of them several times. Shape (N,).

        Returns:
            The second is None where all items are kept. Apply it once to all else that is kept of
            the items.
        """
        items = self.grid.items[rows]
        nodes, batch = self.nodes, self.grid.batch
        compaction = Compaction.of(items, batch)
        if compaction is not None:
            batch = compaction.remaining
            nodes = tuple(compaction.apply(block, 1) for block in nodes)
            items = compaction.numbers[items]
        tree = Tree(
            nodes=nodes,
            seen=self.seen[rows],
            newest=self.newest,
            grid=Grid.of(items, batch),
            length=self.length,
        )
        return tree, compaction


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockTree:
    """What one block has computed of the hypotheses of all items: a ``Past`` of B sequences.

    The nodes stand in no order, so a block whose positions give a bias by the places of keys
    cannot go on from it.
    """

    tree: Tree
    """Grown by the newest tokens."""
    block: int
    """The number of the block."""
    cross_attention: KeyValue | None
    """Of each item. Shapes (B, H, E, K)."""

    @property
    def length(self) -> int:
        """How many tokens each hypothesis has before the newest."""
        return self.tree.length - 1

    def extend(self, new: KeyValue) -> KeyValue:
        """Fill the newest nodes, and return all nodes.

        Args:
            new: shapes (B, H, W, K).

        Returns:
            Shapes (B, H, M, K).
        """
        nodes = self.tree.fill(self.block, torch.stack(new).permute(1, 3, 0, 2, 4))
        return KeyValue(nodes[0], nodes[1])
