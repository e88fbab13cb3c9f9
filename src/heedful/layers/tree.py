"""What the hypotheses of a search have computed: for each item one tree, whose nodes they share.

The hypotheses of a beam differ in their last tokens only. So the keys and values of each token are
kept once, and a mask says which nodes a hypothesis is made of. A beam continues its hypotheses in
another order at nearly every step; that changes the mask and moves no keys. To attention, the
hypotheses of an item are the queries of one sequence.

Shapes: N hypotheses, B items, W most hypotheses of an item, L blocks, M nodes in use by an item, C
nodes that there is room for, E length of the encoder's output, H heads, K head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.layers.cache import KeyValue


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Hypotheses laid out as rows of items, each with as many cells as the largest item needs."""

    items: Tensor
    """The item of each hypothesis. Shape (N,)."""
    cells: Tensor | None
    """The number of its cell, row by row; None where the hypotheses fill the grid. Shape (N,)."""
    batch: int
    """B."""
    width: int
    """W."""

    @classmethod
    def of(cls, items: Tensor) -> "Grid":
        """Lay out hypotheses, given the item of each, 0 to B - 1. Shape (N,)."""
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
        """Take what each hypothesis has, shape (N, ...), out of the grid; undoes ``spread``."""
        rows = grid.flatten(0, 1)
        return rows if self.cells is None else rows.index_select(0, self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """How items close up after some have left: the last items move to the free rows.

    All others stay where they are, so that little is copied however much is kept of an item.
    """

    free: Tensor
    """The rows of items that have left. Shape (G,)."""
    moved: Tensor
    """The items that move there. Shape (G,)."""
    numbers: Tensor
    """The new number of each item that remains. Shape (B,)."""
    remaining: int
    """How many items remain."""

    @classmethod
    def of(cls, items: Tensor, batch: int) -> "Compaction | None":
        """Plan the moves when only some of the items 0 to ``batch`` - 1 remain; None if all do.

        Args:
            items: those that remain, any of them several times. Shape (N,).
            batch: how many there were.
        """
        stays = items.bincount(minlength=batch) > 0  # (B,)
        remaining = int(stays.sum())
        if remaining == batch:
            return None
        free = (~stays[:remaining]).nonzero().squeeze(1)
        moved = stays[remaining:].nonzero().squeeze(1) + remaining
        numbers = torch.arange(batch, device=items.device)
        numbers[moved] = free
        return cls(free=free, moved=moved, numbers=numbers, remaining=remaining)

    def apply(self, rows: Tensor) -> Tensor:
        """Move what is kept of the items, shape (B, ...), in place; return the part in use."""
        rows[self.free] = rows[self.moved]
        return rows[: self.remaining]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The trees of all items. Only the newest may be used: a tree grows where older ones were."""

    nodes: tuple[Tensor, ...]
    """Keys and values of each block, of which the first M are in use; those of a head side by side,
    which is how they are read. Each of shape (B, 2, H, C, K)."""
    seen: Tensor
    """Which nodes each hypothesis is made of. Shape (N, M), bool."""
    newest: Tensor
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
        items = torch.arange(batch, device=like.device)
        return cls(
            nodes=tuple(like.new_zeros(batch, 2, number, 0, head_width) for number in heads),
            seen=torch.zeros(batch, 0, dtype=torch.bool, device=like.device),
            newest=items[:, None],
            grid=Grid.of(items),
            length=0,
        )

    def grow(self) -> "Tree":
        """Return the trees with a new node for each hypothesis, which ``BlockTree.extend`` fills.

        It takes the place of a node that no hypothesis is made of any more, where there is one.
        """
        grid, nodes, seen = self.grid, self.nodes, self.seen
        alive = grid.spread(seen).any(1)  # (B, M)
        needed = grid.width + (int(alive.sum(1).max()) if alive.shape[1] else 0)
        if (more := needed - alive.shape[1]) > 0:
            alive, seen = F.pad(alive, (0, more)), F.pad(seen, (0, more))
        if (more := needed - nodes[0].shape[3]) > 0:
            # Zeros: a node that nobody sees has weight 0, and 0 times any number must be 0.
            nodes = tuple(F.pad(block, (0, 0, 0, more + needed // 2)) for block in nodes)
        free = alive.byte().argsort(dim=1, stable=True)[:, : grid.width]  # (B, W)
        new = seen.new_zeros(*free.shape, alive.shape[1]).scatter_(2, free[..., None], True)
        return Tree(
            nodes=nodes,
            seen=seen | grid.collect(new),
            newest=free,
            grid=grid,
            length=self.length + 1,
        )

    @property
    def mask(self) -> Tensor:
        """Which nodes each hypothesis attends to. Shape (B, 1, W, M), bool."""
        return self.grid.spread(self.seen)[:, None]

    def blocks(self, crosses: Sequence[KeyValue]) -> list["BlockTree"]:
        """Return what each block goes on from.

        Args:
            crosses: what each block attends to in the encoder's output of each item.
        """
        return [
            BlockTree(tree=self, block=number, cross_attention=cross)
            for number, cross in enumerate(crosses)
        ]

    def select(self, rows: Tensor) -> tuple["Tree", "Compaction | None"]:
        """Return the trees of some hypotheses, and how the items that remain close up.

        Args:
            rows: numbers of hypotheses, in any order, any of them several times. Shape (N,).

        Returns:
            The second is None where no item has left. Apply it once to all else that is kept of
            the items.
        """
        items = self.grid.items.index_select(0, rows)
        nodes, compaction = self.nodes, Compaction.of(items, self.grid.batch)
        if compaction is not None:
            nodes = tuple(compaction.apply(block) for block in nodes)
            items = compaction.numbers[items]
        tree = Tree(
            nodes=nodes,
            seen=self.seen.index_select(0, rows),
            newest=self.newest,
            grid=Grid.of(items),
            length=self.length,
        )
        return tree, compaction


@dataclass(frozen=True, kw_only=True, slots=True)
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
        nodes = self.tree.nodes[self.block]  # (B, 2, H, C, K)
        items = torch.arange(len(nodes), device=nodes.device)[:, None]
        for old, newest in zip(nodes.unbind(1), new, strict=True):
            old.transpose(1, 2)[items, self.tree.newest] = newest.transpose(1, 2)  # (B, W, H, K)
        used = nodes[:, :, :, : self.tree.seen.shape[1]]
        return KeyValue(used[:, 0], used[:, 1])
