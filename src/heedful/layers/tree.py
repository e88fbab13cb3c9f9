"""What the hypotheses of a search have computed: for each item one tree, whose nodes they share.

The hypotheses of a beam differ in their last tokens; before those they are one. So the keys and
values of a token are kept once, whatever goes on from it, and a mask says which nodes a hypothesis
is made of. Going on in another order, which a beam does nearly every step, then changes that mask,
and moves no keys. To attention the hypotheses of an item are the queries of one sequence.

Shapes: N hypotheses, B items, W most hypotheses of an item, L blocks, M nodes in use by an item, C
nodes that there is room for, H heads, K head width.
"""

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
        here = items.bincount(minlength=batch) > 0  # (B,)
        left = int(here.sum())
        if left == batch:
            return None
        free = (~here[:left]).nonzero().squeeze(1)
        last = here[left:].nonzero().squeeze(1) + left
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

    nodes: Tensor
    """Keys and values, of which the first M are in use; those of a head side by side, which is how
    they are read. Shape (B, L, 2, H, C, K)."""
    seen: Tensor
    """Which nodes each hypothesis is made of. Shape (N, M), bool."""
    newest: Tensor
    """The nodes of the newest tokens. Shape (B, W)."""
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
        items = torch.arange(batch, device=like.device)
        return cls(
            nodes=like.new_zeros(batch, blocks, 2, heads, 0, head_width),
            seen=torch.zeros(batch, 0, dtype=torch.bool, device=like.device),
            newest=items[:, None],
            places=Places.of(items),
        )

    def grow(self) -> "Tree":
        """Return the trees with a new node for each hypothesis, which ``remember`` fills.

        It takes the place of a node that no hypothesis is made of any more, where there is one.
        """
        places, nodes, seen = self.places, self.nodes, self.seen
        alive = places.spread(seen).any(1)  # (B, M)
        needed = places.width + (int(alive.sum(1).max()) if alive.shape[1] else 0)
        if (more := needed - alive.shape[1]) > 0:
            alive, seen = F.pad(alive, (0, more)), F.pad(seen, (0, more))
        if (more := needed - nodes.shape[4]) > 0:
            # Zeros, for what is not seen yet is multiplied by its weight of 0 all the same.
            nodes = F.pad(nodes, (0, 0, 0, more + needed // 2))
        free = alive.byte().argsort(dim=1, stable=True)[:, : places.width]  # (B, W)
        own = seen.new_zeros(*free.shape, alive.shape[1]).scatter_(2, free[..., None], True)
        return Tree(
            nodes=nodes,
            seen=seen | places.collect(own),
            newest=free,
            places=places,
        )

    @property
    def mask(self) -> Tensor:
        """Which nodes each hypothesis attends to. Shape (B, 1, W, M), bool."""
        return self.places.spread(self.seen)[:, None]

    def remember(self, block: int, new: KeyValue) -> KeyValue:
        """Fill the newest nodes of a block, and return all of its nodes.

        Args:
            block: its number.
            new: shapes (B, H, W, K).

        Returns:
            Shapes (B, H, M, K).
        """
        nodes = self.nodes[:, block]  # (B, 2, H, C, K)
        items = torch.arange(len(nodes), device=nodes.device)[:, None]
        for old, filled in zip(nodes.unbind(1), new, strict=True):
            old.transpose(1, 2)[items, self.newest] = filled.transpose(1, 2)  # (B, W, H, K)
        used = nodes[:, :, :, : self.seen.shape[1]]
        return KeyValue(used[:, 0], used[:, 1])

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
            nodes = closing.close(nodes)
            items = closing.numbers[items]
        tree = Tree(
            nodes=nodes,
            seen=self.seen.index_select(0, rows),
            newest=self.newest,
            places=Places.of(items),
        )
        return tree, closing
