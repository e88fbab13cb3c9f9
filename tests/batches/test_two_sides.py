"""Plans for items with two sides: texts and their translations."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from heedful.batches.buckets import Step, plan_epoch

pairs_of = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80)


def padding_of(plan: list[Step], sizes: NDArray[np.int64]) -> float:
    """Return the share of padding among the positions of all micro-batches."""
    places = sum(len(batch) * int(sizes[batch].max(0).sum()) for step in plan for batch in step)
    return 1 - int(sizes.sum()) / places


def like_real_ones(number: int) -> NDArray[np.int64]:
    """Draw correlated lengths like those of image captions in German and English."""
    draw = np.random.default_rng(3)
    first, second, shared = draw.normal(size=(3, number))
    logs = [2.7 + 0.3 * shared + 0.12 * own for own in (first, second)]
    return np.exp(np.stack(logs, axis=1)).astype(np.int64) + 2  # (number, 2)


@given(pairs_of, st.integers(1, 20), st.integers(1, 400), st.booleans())
def test_micro_batches_keep_to_the_budget_of_both_sides(
    pairs: list[tuple[int, int]], batch_size: int, tokens: int, shuffle: bool
) -> None:
    sizes = np.array(pairs)
    plan = plan_epoch(
        sizes, batch_size=batch_size, batch_tokens=tokens, seed=1, epoch=0, shuffle=shuffle
    )
    items = [int(item) for step in plan for batch in step for item in batch]
    assert sorted(items) == list(range(len(pairs)))
    assert all(sum(map(len, step)) == batch_size for step in plan[:-1])
    for batch in chain.from_iterable(plan):
        assert len(batch) == 1 or len(batch) * sizes[batch].max(0).sum() <= tokens


@pytest.mark.parametrize("batch_size", [64, 128])
def test_padding_of_both_sides_stays_below_a_twentieth(batch_size: int) -> None:
    sizes = like_real_ones(29_000)
    plan = plan_epoch(sizes, batch_size=batch_size, batch_tokens=8192, seed=0, epoch=0)
    assert padding_of(plan, sizes) < 0.05
    # What is long on one side alone is not what decides: sorted by one side it would be more.
    by_source = np.array_split(np.argsort(-sizes[:, 0], kind="stable"), len(plan))
    assert padding_of([by_source], sizes) > 0.05


def test_lengths_can_be_mixed() -> None:
    sizes = like_real_ones(2000)
    plans = [
        plan_epoch(
            sizes, batch_size=64, batch_tokens=8192, seed=0, epoch=epoch, similar_lengths=False
        )
        for epoch in (0, 0, 1)
    ]
    steps = [[np.sort(np.concatenate(step)).tolist() for step in plan] for plan in plans]
    assert steps[0] == steps[1] != steps[2]
    assert sorted(chain.from_iterable(steps[0])) == list(range(2000))
    assert [*map(len, steps[0])] == [64] * 31 + [16]
    means = [sizes[step].mean() for step in steps[0]]
    # As far from each other as means of so many draws are.
    assert np.std(means[:-1]) < 1.5 * sizes.sum(1).std() / 2 / 64**0.5


def test_other_epochs_have_other_batches() -> None:
    sizes = like_real_ones(2000)
    plans = [
        plan_epoch(sizes, batch_size=16, batch_tokens=8192, seed=0, epoch=epoch)
        for epoch in (0, 1, 1)
    ]
    steps = [{frozenset(np.concatenate(step).tolist()) for step in plan} for plan in plans]
    assert steps[1] == steps[2]
    assert len(steps[0] & steps[1]) < 0.05 * len(steps[0])


def test_a_plan_is_the_same_on_every_platform_and_version() -> None:
    # A resumed run relies on it: never change these numbers without a way to resume older runs.
    sizes = [(3, 4), (1, 9), (4, 4), (1, 1), (5, 6), (9, 2), (2, 3), (6, 6), (5, 1), (3, 8)]
    plan = plan_epoch(np.array(sizes), batch_size=4, batch_tokens=24, seed=1, epoch=2, pool=1)
    assert [[rows.tolist() for rows in step] for step in plan] == [
        [[5], [9, 6], [3]],
        [[1], [2, 0], [8]],
        [[7, 4]],
    ]
