"""The search trees equal a separate cache for each hypothesis."""

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.layers.cache import KeyValue
from heedful.layers.tree_cache import Compaction, Grid, Tree, rounded_up

HEADS, WIDTH = (3, 1), 4


def _past(tree: Tree, memory: KeyValue) -> list[Tensor]:
    """Return the keys that each hypothesis attends to, in order of their first number."""
    keys = memory.key[torch.from_numpy(tree.grid.items), 0, :, 0]  # (N, M), of the first head
    seen = torch.from_numpy(tree.node_mask)
    return [row[nodes].sort().values for row, nodes in zip(keys, seen, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_any_course_of_a_search(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    like = torch.empty((), dtype=torch.float64)
    tree = Tree.start(21, heads=HEADS, head_width=WIDTH, like=like)
    pasts: list[list[int]] = [[] for _ in range(21)]
    needed, token = 0, 0
    for step in range(25):
        alive: dict[int, set[int]] = {}
        for item, past in zip(tree.grid.items.tolist(), pasts, strict=True):
            alive.setdefault(item, set()).update(past)
        needed = max(needed, max(map(len, alive.values())) + tree.grid.width)
        tree = tree.grow()
        # What no hypothesis is made of has made room.
        assert needed <= tree.node_mask.shape[1] < needed + 16
        names = torch.arange(token, token + len(pasts))
        token += len(pasts)
        pasts = [[*past, name] for past, name in zip(pasts, names.tolist(), strict=True)]
        grid = tree.grid.scatter(names.double())  # (B, W)
        crosses = [torch.full((2,), float(number)) for number in range(len(HEADS))]
        for block, (past, heads) in enumerate(zip(tree.blocks(crosses), HEADS, strict=True)):
            new = grid[:, None, :, None].expand(-1, heads, -1, WIDTH)
            assert past.length == step
            assert past.cross_attention == KeyValue(*crosses[block])
            memory = past.extend(KeyValue(new * (block + 1), -new))
            assert_same_bits(memory.value, -memory.key / (block + 1), "whole numbers")
            found = [row.tolist() for row in _past(tree, memory)]
            assert found == [[name * (block + 1) for name in past] for past in pasts]
        mask = torch.from_numpy(tree.mask)
        assert mask.shape == (*grid.shape, tree.node_mask.shape[1])
        assert int(mask.sum()) == int(tree.node_mask.sum())
        seen = torch.from_numpy(tree.node_mask)
        assert_same_bits(tree.grid.gather(mask), seen, "whole numbers")
        # Any of them go on, some twice, and some items are left by all of theirs.
        most = min(30 - step, 2 * len(pasts))
        rows = torch.randint(len(pasts), (most,), generator=generator)
        before = torch.from_numpy(tree.grid.items)[rows]
        kept = torch.arange(tree.grid.batch)
        tree, compaction = tree.select(rows.numpy())
        size = min(rounded_up(len(before.unique())), len(kept))
        assert (compaction is None) == (size == len(kept))
        if compaction is not None:
            kept = compaction.apply(kept)
        assert len(kept.unique()) == size == tree.grid.batch
        assert_same_bits(kept[torch.from_numpy(tree.grid.items)], before, "whole numbers")
        pasts = [pasts[row] for row in rows.tolist()]


def test_those_that_are_left_stay_or_take_a_free_place() -> None:
    assert Compaction.of(np.array([1, 0, 1, 2]), batch=3) is None
    compaction = Compaction.of(np.array([5, 1, 5]), batch=7)
    assert compaction is not None
    whole = torch.arange(14).view(7, 2)
    assert compaction.apply(whole).tolist() == [[10, 11], [2, 3]]
    assert compaction.new_indices[[1, 5]].tolist() == [1, 0]
    # None but the free ones was written.
    assert_same_bits(whole[1:], torch.arange(2, 14).view(6, 2), "whole numbers")


def test_sizes_are_few() -> None:
    assert [rounded_up(count) for count in range(1, 18)] == [
        *(1, 2, 4, 4, 8, 8, 8, 8),
        *(16, 16, 16, 16, 16, 16, 16, 16, 24),
    ]
    assert Compaction.of(np.array([0, 5, 3, 2, 6]), batch=7) is None
    # One that has left stays: four are computed for three.
    compaction = Compaction.of(np.array([5, 1, 3, 3, 5]), batch=7)
    assert compaction is not None
    assert compaction.apply(torch.arange(7)).tolist() == [0, 1, 5, 3]
    assert compaction.new_indices[[3, 1, 5]].tolist() == [3, 1, 2]


def test_a_grid_of_hypotheses() -> None:
    plain = Grid.of(np.array([0, 0, 1, 1]), 2)
    assert plain.cells is None
    assert plain.scatter(torch.arange(4)).tolist() == [[0, 1], [2, 3]]
    grid = Grid.of(np.array([2, 0, 2, 1, 2]), 3)
    assert (grid.batch, grid.width) == (3, 3)
    rows = torch.arange(1, 6)
    assert grid.scatter(rows).tolist() == [[2, 0, 0], [4, 0, 0], [1, 3, 5]]
    assert_same_bits(grid.gather(grid.scatter(rows)), rows, "whole numbers")
    beside_empty = Grid.of(np.array([1, 1]), 3)
    assert beside_empty.scatter(torch.arange(1, 3)).tolist() == [[0, 0], [1, 2], [0, 0]]
