import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.batches.buckets import Positions, Step, plan_epoch, plan_pass

lengths_of = st.lists(st.integers(0, 60), max_size=120)
sizes = st.integers(1, 40)


def flat(plan: list[Step]) -> list[list[int]]:
    return [list(map(int, chain.from_iterable(step))) for step in plan]


def check_bounds(
    batches: list[Positions],
    lengths: list[int],
    tokens: int,
    items: int,
    max_padding: float = math.inf,
) -> None:
    """No batch exceeds its bounds or has room for the next item, and the longest come first."""
    for number, rows in enumerate(batches):
        longest = max(lengths[row] for row in rows)
        padding = sum(longest - lengths[row] for row in rows)
        assert padding <= max_padding
        assert len(rows) == 1 or len(rows) * longest <= tokens
        assert len(rows) <= items
        assert [lengths[row] for row in rows] == sorted(
            (lengths[row] for row in rows), reverse=True
        )
        if number + 1 < len(batches):
            assert lengths[batches[number + 1][0]] <= lengths[rows[-1]]
            assert (
                len(rows) == items
                or (len(rows) + 1) * longest > tokens
                or padding + longest - lengths[batches[number + 1][0]] > max_padding
            )


@given(lengths_of, sizes, st.integers(1, 300), st.integers(0, 2**40), st.booleans(), sizes)
def test_a_plan_of_an_epoch(
    lengths: list[int], batch_size: int, tokens: int, seed: int, shuffle: bool, pool: int
) -> None:
    plan = plan_epoch(
        lengths,
        batch_size=batch_size,
        batch_tokens=tokens,
        seed=seed,
        epoch=3,
        shuffle=shuffle,
        pool=pool,
    )
    steps = flat(plan)
    assert sorted(chain.from_iterable(steps)) == list(range(len(lengths)))
    assert all(len(step) == batch_size for step in steps[:-1])
    assert all(0 < len(step) <= batch_size for step in steps)
    for step in plan:
        check_bounds(step, lengths, tokens, batch_size)
    if not shuffle:
        assert [sorted(step) for step in steps] == [
            list(range(start, min(start + batch_size, len(lengths))))
            for start in range(0, len(lengths), batch_size)
        ]


@given(lengths_of, sizes, st.integers(0, 600), st.integers(0, 2**40))
def test_a_step_of_any_lengths_is_cut_where_padding_costs_more(
    lengths: list[int], batch_size: int, max_padding: int, seed: int
) -> None:
    def plan(max_padding: float) -> list[Step]:
        return plan_epoch(
            lengths,
            batch_size=batch_size,
            batch_tokens=10**9,
            seed=seed,
            epoch=1,
            similar_lengths=False,
            max_padding=max_padding,
        )

    cut = plan(max_padding)
    assert flat(cut) == flat(plan(math.inf)), "other items learn together"
    for step in cut:
        check_bounds(step, lengths, 10**9, batch_size, max_padding)


@given(lengths_of, st.integers(1, 3000), st.integers(1, 120), st.sampled_from([0, 512, 10**9]))
def test_a_plan_of_a_pass(
    lengths: list[int], tokens: int, max_items: int, max_padding: int
) -> None:
    plan = plan_pass(lengths, batch_tokens=tokens, max_items=max_items, max_padding=max_padding)
    assert sorted(map(int, chain.from_iterable(plan))) == list(range(len(lengths)))
    check_bounds(plan, lengths, tokens, max_items, max_padding=max_padding)


def plan_of(seed: int, epoch: int, lengths: object = None) -> list[list[int]]:
    given = np.arange(1000) % 50 if lengths is None else lengths
    return flat(plan_epoch(given, batch_size=8, batch_tokens=4096, seed=seed, epoch=epoch))  # type: ignore[arg-type]


def test_a_plan_depends_on_its_arguments_alone() -> None:
    first = plan_of(7, 0)
    np.random.seed(3)
    assert plan_of(7, 0) == first
    assert plan_of(7, 0, list(np.arange(1000) % 50)) == first
    assert plan_of(7, 0, (np.arange(1000) % 50).astype(np.int32)) == first
    assert plan_of(7, 1) != first
    assert plan_of(8, 0) != first


def test_a_plan_is_the_same_on_every_platform_and_version() -> None:
    # A resumed run relies on it: never change these numbers without a way to resume older runs.
    plan = plan_epoch(
        [3, 1, 4, 1, 5, 9, 2, 6, 5, 3], batch_size=4, batch_tokens=12, seed=1, epoch=2, pool=1
    )
    assert [[rows.tolist() for rows in step] for step in plan] == [
        [[5], [9, 6, 3]],
        [[8, 2], [0, 1]],
        [[7, 4]],
    ]


def test_pools_keep_batches_random() -> None:
    lengths = np.arange(10_000)
    plan = plan_epoch(lengths, batch_size=10, batch_tokens=10**9, seed=0, epoch=0, pool=100)
    means = np.array([lengths[np.concatenate(step)].mean() for step in plan])
    # Like goes with like inside a batch: in a pool of 1,000 items, a batch spans about a hundredth.
    spans = [np.ptp(lengths[np.concatenate(step)]) for step in plan]
    assert np.mean(spans) < 200
    # But batches come in any order: neighbours have nothing to do with each other, and the epoch's
    # halves are alike.
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.1
    assert abs(means[:500].mean() - means[500:].mean()) < 500


def test_a_small_data_set_gives_other_batches_in_each_epoch() -> None:
    lengths = np.arange(320)
    plans = [
        plan_epoch(lengths, batch_size=8, batch_tokens=10**9, seed=0, epoch=epoch)
        for epoch in (0, 1)
    ]
    pairs = [{(a, b) for step in flat(plan) for a in step for b in step if a < b} for plan in plans]
    assert len(pairs[0] & pairs[1]) < len(pairs[0]) / 2


def test_items_of_one_length_are_drawn_at_random() -> None:
    plan = plan_epoch([5] * 1000, batch_size=10, batch_tokens=10**9, seed=0, epoch=0)
    order = np.array(list(chain.from_iterable(flat(plan))))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.1
    neighbours = np.abs(np.diff(order)) == 1
    assert neighbours.mean() < 0.02


def test_the_short_step_is_last_and_random() -> None:
    lengths = np.arange(1005)
    rests = []
    for epoch in range(20):
        plan = plan_epoch(lengths, batch_size=10, batch_tokens=10**9, seed=0, epoch=epoch)
        assert [sum(map(len, step)) for step in plan] == [10] * 100 + [5]
        rests += list(np.concatenate(plan[-1]))
    assert 350 < np.mean(rests) < 650


def test_items_of_one_length_keep_their_order_in_a_pass() -> None:
    [rows] = plan_pass([5, 6] * 100, batch_tokens=10**9, max_items=1000)
    assert rows.tolist() == [*range(1, 200, 2), *range(0, 200, 2)]


@pytest.mark.parametrize("shuffle", [True, False])
def test_no_items_no_steps(shuffle: bool) -> None:
    assert plan_epoch([], batch_size=4, batch_tokens=9, seed=0, epoch=0, shuffle=shuffle) == []
    assert plan_pass([], batch_tokens=9, max_items=4) == []
