"""The KV cache of a beam search: one tree per item, whose nodes its hypotheses share.

The hypotheses of a beam differ only in their last tokens. So the keys and values of each token are
stored once, as a node. A mask says which nodes belong to a hypothesis. Beam search reorders the
hypotheses at nearly every step; that changes the mask, but moves no keys. In attention, the
hypotheses of an item are the queries of one sequence.

The bookkeeping of nodes uses numpy arrays, not tensors: they are small, and there are many steps.

Shapes: N hypotheses, B items, W largest number of hypotheses per item, L blocks, M capacity in
nodes, E length of the encoder's output, H heads, K head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.layers.cache import KeyValue

_GROWTH = 16
"""Number of nodes by which the capacity grows. Growing copies all nodes, so that the nodes of a
head stay contiguous. With gaps, every half-precision product would copy them first."""


_ROUNDING = 8


def rounded_up(count: int) -> int:
    """Return the number of rows to compute when ``count`` are needed, to get only a few sizes.

    The first product of a new size creates a kernel, which takes longer than most products.

    Args:
        count: at least 1.
    """
    if count < _ROUNDING:
        return 1 << (count - 1).bit_length()
    return -(-count // _ROUNDING) * _ROUNDING


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grid:
    """Hypotheses in a grid of one row per item, with W cells per row."""

    items: NDArray[np.int64]
    """The item of each hypothesis. Shape (N,)."""
    cells: NDArray[np.int64] | None
    """Row-major index of each hypothesis's cell; None if the grid is full. Shape (N,)."""
    batch: int
    """B."""
    width: int
    """W."""

    @classmethod
    def of(cls, items: NDArray[np.int64], batch: int) -> "Grid":
        """Return the grid of hypotheses.

        Args:
            items: the item of each hypothesis, 0 to B - 1. Shape (N,).
            batch: B. Rows of items without hypotheses are empty.
        """
        counts = np.bincount(items, minlength=batch)  # (B,)
        width = int(counts.max())
        order = items.argsort(kind="stable")
        starts = counts.cumsum() - counts
        cells = np.empty_like(items)
        cells[order] = np.arange(len(items)) + (np.arange(batch) * width - starts)[items[order]]
        is_full = np.array_equal(cells, np.arange(batch * width))
        return cls(items=items, cells=None if is_full else cells, batch=batch, width=width)

    def scatter(self, rows: Tensor) -> Tensor:
        """Scatter values of hypotheses, shape (N, ...), into the grid: shape (B, W, ...)."""
        if self.cells is not None:
            grid = rows.new_zeros(self.batch * self.width, *rows.shape[1:])
            rows = grid.index_copy(0, torch.from_numpy(self.cells).to(rows.device), rows)
        return rows.view(self.batch, self.width, *rows.shape[1:])

    def gather(self, grid: Tensor) -> Tensor:
        """Gather values of hypotheses, shape (N, ...), from the grid: inverse of ``scatter``."""
        rows = grid.flatten(0, 1)
        if self.cells is None:
            return rows
        return rows.index_select(0, torch.from_numpy(self.cells).to(rows.device))

    def spread_array(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Like ``scatter``, for an array."""
        if self.cells is not None:
            grid = np.zeros((self.batch * self.width, *rows.shape[1:]), dtype=rows.dtype)
            grid[self.cells] = rows
            rows = grid
        return rows.reshape(self.batch, self.width, *rows.shape[1:])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Compaction:
    """Compaction after items finish: the last items move into the free rows.

    All other items stay in place, so little is copied however large the state of an item is. Some
    finished items stay as well, so that the number of items is a ``rounded_up`` one.
    """

    free_rows: NDArray[np.int64]
    """Rows of the removed items that are filled again. Shape (G,)."""
    moved_items: NDArray[np.int64]
    """Items that move into these rows. Shape (G,)."""
    new_indices: NDArray[np.int64]
    """New index of each item; arbitrary for removed items. Shape (B,)."""
    remaining: int
    """Number of items kept."""

    @classmethod
    def of(cls, items: NDArray[np.int64], batch: int) -> "Compaction | None":
        """Plan the moves when some of the items 0 to ``batch`` - 1 finish; None if all are kept.

        Args:
            items: the remaining items, with repetitions allowed. Shape (N,).
            batch: number of items before.
        """
        kept = np.bincount(items, minlength=batch) > 0  # (B,)
        active = int(kept.sum())
        remaining = min(rounded_up(active), batch)
        if remaining == batch:
            return None
        kept[np.flatnonzero(~kept)[: remaining - active]] = True
        free = np.flatnonzero(~kept[:remaining])
        moved = np.flatnonzero(kept[remaining:]) + remaining
        numbers = np.arange(batch)
        numbers[moved] = free
        return cls(free_rows=free, moved_items=moved, new_indices=numbers, remaining=remaining)

    def apply(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Compact a tensor in place, and return the part in use.

        Args:
            rows: the state of the items.
            dim: the dimension of the items.
        """
        items = rows.movedim(dim, 0)
        free, moved = (
            torch.from_numpy(part).to(rows.device) for part in (self.free_rows, self.moved_items)
        )
        items[free] = items[moved]
        return rows.narrow(dim, 0, self.remaining)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tree:
    """The trees of all items. Use only the newest ``Tree``: growing overwrites older ones."""

    nodes: tuple[Tensor, ...]
    """Keys and values of each block. The nodes of a head are contiguous, in the layout that
    attention reads. Each of shape (2, B, H, M, K)."""
    node_mask: NDArray[np.bool_]
    """Whether a node belongs to a hypothesis. Shape (N, M)."""
    newest_nodes: NDArray[np.int64]
    """The nodes of the newest tokens. Shape (B, W)."""
    grid: Grid
    length: int
    """Number of tokens of each hypothesis, including the newest."""

    @classmethod
    def start(cls, batch: int, *, heads: Sequence[int], head_width: int, like: Tensor) -> "Tree":
        """Return empty trees with one hypothesis each.

        Args:
            batch: B.
            heads: H of each block.
            head_width: K.
            like: tensor with the dtype and the device to use.
        """
        items = np.arange(batch)
        return cls(
            nodes=tuple(like.new_zeros(2, batch, number, 0, head_width) for number in heads),
            node_mask=np.zeros((batch, 0), dtype=np.bool_),
            newest_nodes=items[:, None],
            grid=Grid.of(items, batch),
            length=0,
        )

    def grow(self) -> "Tree":
        """Return the trees with a new node for each hypothesis, to be filled by ``fill``.

        A new node reuses the slot of a node that no hypothesis needs any more, if there is one.
        """
        grid, nodes = self.grid, self.nodes
        alive = np.asarray(grid.spread_array(self.node_mask).any(1))  # (B, M)
        # Finished items use the nodes of the first active item, so most items fill the same slots.
        alive[~alive.any(1)] = alive[grid.items[0]]
        capacity = alive.shape[1]
        needed = grid.width + (int(alive.sum(1).max()) if capacity else 0)
        extra = max(0, -(-(needed - capacity) // _GROWTH) * _GROWTH)
        seen = np.pad(self.node_mask, ((0, 0), (0, extra)))  # a copy: older trees keep theirs
        if extra:
            # Pad with zeros: unused nodes get weight 0, and 0 times NaN would not be 0.
            nodes = tuple(F.pad(block, (0, 0, 0, extra)) for block in nodes)
            alive = np.pad(alive, ((0, 0), (0, extra)))
        newest = alive.argsort(axis=1, kind="stable")[:, : grid.width]  # (B, W)
        cells = newest.reshape(-1)
        seen[np.arange(len(seen)), cells if grid.cells is None else cells[grid.cells]] = True
        return Tree(
            nodes=nodes, node_mask=seen, newest_nodes=newest, grid=grid, length=self.length + 1
        )

    def fill(self, block: int, new: Tensor) -> Tensor:
        """Fill the newest nodes of a block, and return all nodes.

        Args:
            block: index of the block.
            new: keys and values. Shape (B, W, 2, H, K).

        Returns:
            Shape (2, B, H, M, K).
        """
        nodes = self.nodes[block]
        first, width = int(self.newest_nodes[0, 0]), self.newest_nodes.shape[1]
        if (self.newest_nodes == np.arange(first, first + width)).all():
            nodes.narrow(3, first, width).copy_(new.permute(2, 0, 3, 1, 4))
        else:
            newest = torch.from_numpy(self.newest_nodes).to(nodes.device)
            items = torch.arange(len(newest), device=nodes.device)[:, None]
            nodes.permute(1, 3, 0, 2, 4)[items, newest] = new
        return nodes

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The nodes each hypothesis attends to; none in empty cells. Shape (B, W, M)."""
        return self.grid.spread_array(self.node_mask)

    def blocks(self, crosses: Sequence[Tensor]) -> list["BlockTree"]:
        """Return the KV cache of each block.

        Args:
            crosses: cross-attention keys and values of each block. Each of shape (2, B, H, E, K).
        """
        return [
            BlockTree(tree=self, block=number, cross_attention=KeyValue(cross[0], cross[1]))
            for number, cross in enumerate(crosses)
        ]

    def select(self, rows: NDArray[np.int64]) -> tuple["Tree", "Compaction | None"]:
        """Return the trees of the given hypotheses, and the compaction of the remaining items.

        Args:
            rows: indices of hypotheses, in any order, with repetitions allowed. Shape (N,).

        Returns:
            The compaction is None if all items are kept. Apply it once to every other state of the
            items.
        """
        items = self.grid.items[rows]
        nodes, batch = self.nodes, self.grid.batch
        compaction = Compaction.of(items, batch)
        if compaction is not None:
            batch = compaction.remaining
            nodes = tuple(compaction.apply(block, 1) for block in nodes)
            items = compaction.new_indices[items]
        tree = Tree(
            nodes=nodes,
            node_mask=self.node_mask[rows],
            newest_nodes=self.newest_nodes,
            grid=Grid.of(items, batch),
            length=self.length,
        )
        return tree, compaction


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockTree:
    """The KV cache of one block for the hypotheses of all items: a ``KVCache`` of B sequences.

    The nodes are unordered, so a block with a relative position bias cannot use this cache.
    """

    tree: Tree
    """The tree, already grown by the newest tokens."""
    block: int
    """Index of the block."""
    cross_attention: KeyValue | None
    """Cross-attention keys and values of each item. Shapes (B, H, E, K)."""

    @property
    def length(self) -> int:
        """Number of tokens of each hypothesis before the newest."""
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
