"""Which examples go together: pure functions from lengths to batches of positions.

A batch is padded to its longest item, so items of like length are put together. Training must stay
close to independent draws all the same: only items of one large random pool are sorted, and the
batches of all pools are shuffled.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""Positions of items, in the order in which they stand in a batch."""

Step = list[Positions]
"""The micro-batches of one optimizer step, longest first."""

_LEAST_POOLS = 4

_PASS_PADDING = 256
"""Tokens of padding that a batch of a pass may hold: about what one batch more costs to start."""


def plan_epoch(
    lengths: Sequence[int] | NDArray[np.integer],
    *,
    batch_size: int,
    batch_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    pool: int = 128,
) -> list[Step]:
    """Plan the optimizer steps of one epoch; every item stands in exactly one.

    The plan depends on the arguments alone, not on the platform, numpy's version or earlier epochs.

    Args:
        lengths: (N,) tokens of each item.
        batch_size: items per step; only the last step may have fewer.
        batch_tokens: the most a micro-batch may hold, padding included. An item longer than that
            stands alone.
        seed: with ``epoch``, all that decides the order. Not negative.
        epoch: number of the epoch.
        shuffle: false leaves the items in their order.
        pool: about how many batches are sorted by length together; fewer where that would leave
            less than four pools.
    """
    assert batch_size > 0
    assert batch_tokens > 0
    assert pool > 0
    sizes = np.asarray(lengths, dtype=np.int64)
    if shuffle:
        batches = _bucketed(sizes, batch_size, pool, np.random.SeedSequence([seed, epoch]))
    else:
        batches = _cut(np.arange(len(sizes)), batch_size)
    return [
        _split(_longest_first(batch, sizes), sizes, batch_tokens, batch_size) for batch in batches
    ]


def plan_pass(
    lengths: Sequence[int] | NDArray[np.integer], *, batch_tokens: int, max_items: int
) -> list[Positions]:
    """Plan one pass over all items for prediction: the longest first, with the least padding.

    The first batch needs the most memory, so what does not fit fails at once. The caller puts
    results back in order by their positions. A batch ends where its padding would cost more than
    another batch.

    Args:
        lengths: (N,) tokens of each item.
        batch_tokens: the most a batch may hold, padding included. An item longer than that stands
            alone.
        max_items: the most items of a batch.
    """
    assert batch_tokens > 0
    assert max_items > 0
    sizes = np.asarray(lengths, dtype=np.int64)
    items = _longest_first(np.arange(len(sizes)), sizes)
    return _split(items, sizes, batch_tokens, max_items, most_padding=_PASS_PADDING)


def _bucketed(
    sizes: NDArray[np.int64], batch_size: int, pool: int, seed: np.random.SeedSequence
) -> list[Positions]:
    # numpy keeps the raw output of a bit generator for ever, `Generator.permutation` it may change.
    bits = np.random.PCG64(seed)
    order = np.argsort(bits.random_raw(len(sizes)), kind="stable")
    num_batches = len(sizes) // batch_size
    whole = num_batches * batch_size
    # Several pools even of few items: one would put the same items together in every epoch.
    num_pools = max(round(num_batches / pool), min(_LEAST_POOLS, num_batches))
    ends = [num_batches * (number + 1) // num_pools * batch_size for number in range(num_pools)]
    batches: list[Positions] = []
    for items in np.split(order[:whole], ends[:-1]):
        batches += _cut(_longest_first(items, sizes), batch_size)
    shuffled = [
        batches[place] for place in np.argsort(bits.random_raw(len(batches)), kind="stable")
    ]
    return [*shuffled, *_cut(order[whole:], batch_size)]  # a random rest, not the longest items


def _longest_first(items: Positions, sizes: NDArray[np.int64]) -> Positions:
    """Sort items by length; those of equal length keep their order, so ties stay random."""
    return items[np.argsort(-sizes[items], kind="stable")]


def _cut(items: Positions, size: int) -> list[Positions]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _split(
    items: Positions,
    sizes: NDArray[np.int64],
    batch_tokens: int,
    max_items: int,
    *,
    most_padding: float = math.inf,
) -> list[Positions]:
    """Cut items, longest first, into the fewest batches that keep within all bounds."""
    batches = []
    start = 0
    while start < len(items):
        longest = max(int(sizes[items[start]]), 1)
        batch = items[start : start + min(max(batch_tokens // longest, 1), max_items)]
        padding = np.cumsum(longest - sizes[batch])  # of the batch up to each item
        batch = batch[: max(int(np.searchsorted(padding, most_padding, side="right")), 1)]
        batches.append(batch)
        start += len(batch)
    return batches
