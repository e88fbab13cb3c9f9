"""What the hypotheses of a search have computed: for each item one tree, whose nodes they share.

The hypotheses of a beam differ in their last tokens; before those they are one. So the keys and
values of a token are kept once, whatever goes on from it, and a mask says which nodes a hypothesis
is made of. Going on in another order, which a beam does nearly every step, then changes that mask,
and moves no keys. To attention the hypotheses of an item are the queries of one sequence.

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
class Closing:
    """How items close up when some are gone: the last of them take the places that are free.

    All others stay where they are, so that little is copied however much is kept of an item.
    """

    free: Tensor
    """The places that are taken. Shape (G,)."""
    last: Tensor
    """The items that take them. Shape (G,)."""
    numbers: Tensor
    """The new number of each item that is left. Shape (B,)."""
    left: int
    """How many there are."""

    @classmethod
    def of(cls, items: Tensor, batch: int) -> "Closing | None":
        """Tell what is to be done when only some of 0 to ``batch`` - 1 are left; None if nothing.

        Args:
            items: those that are left, any of them several times. Shape (N,).
            batch: how many there were.
        """
        stays = items.bincount(minlength=batch) > 0  # (B,)
        left = int(stays.sum())
        if left == batch:
            return None
        free = (~stays[:left]).nonzero().squeeze(1)
        last = stays[left:].nonzero().squeeze(1) + left
        numbers = torch.arange(batch, device=items.device)
        numbers[last] = free
        return cls(free=free, last=last, numbers=numbers, left=left)

    def close(self, rows: Tensor) -> Tensor:
        """Move what is kept of the items, shape (B, ...), in place; return what is left of it."""
        rows[self.free] = rows[self.last]
        return rows[: self.left]


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
    places: Places
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
            places=Places.of(items),
            length=0,
        )

    def grow(self) -> "Tree":
        """Return the trees with a new node for each hypothesis, which ``BlockTree.extend`` fills.

        It takes the place of a node that no hypothesis is made of any more, where there is one.
        """
        places, nodes, seen = self.places, self.nodes, self.seen
        alive = places.spread(seen).any(1)  # (B, M)
        needed = places.width + (int(alive.sum(1).max()) if alive.shape[1] else 0)
        if (more := needed - alive.shape[1]) > 0:
            alive, seen = F.pad(alive, (0, more)), F.pad(seen, (0, more))
        if (more := needed - nodes[0].shape[3]) > 0:
            # Zeros, for what is not seen yet is multiplied by its weight of 0 all the same.
            nodes = tuple(F.pad(block, (0, 0, 0, more + needed // 2)) for block in nodes)
        free = alive.byte().argsort(dim=1, stable=True)[:, : places.width]  # (B, W)
        new = seen.new_zeros(*free.shape, alive.shape[1]).scatter_(2, free[..., None], True)
        return Tree(
            nodes=nodes,
            seen=seen | places.collect(new),
            newest=free,
            places=places,
            length=self.length + 1,
        )

    @property
    def mask(self) -> Tensor:
        """Which nodes each hypothesis attends to. Shape (B, 1, W, M), bool."""
        return self.places.spread(self.seen)[:, None]

    def blocks(self, crosses: Sequence[KeyValue]) -> list["BlockTree"]:
        """Return what each block goes on from.

        Args:
            crosses: what each block attends to in the encoder's output of each item.
        """
        return [
            BlockTree(tree=self, block=number, cross_attention=cross)
            for number, cross in enumerate(crosses)
        ]

    def select(self, rows: Tensor) -> tuple["Tree", "Closing | None"]:
        """Return the trees of some hypotheses, and how the items that are left close up.

        Args:
            rows: numbers of hypotheses, in any order, any of them several times. Shape (N,).

        Returns:
            The second is None where no item is gone. What else is kept of items is to be given to
            it, once.
        """
        items = self.places.items.index_select(0, rows)
        nodes, closing = self.nodes, Closing.of(items, self.places.batch)
        if closing is not None:
            nodes = tuple(closing.close(block) for block in nodes)
            items = closing.numbers[items]
        tree = Tree(
            nodes=nodes,
            seen=self.seen.index_select(0, rows),
            newest=self.newest,
            places=Places.of(items),
            length=self.length,
        )
        return tree, closing


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
