"""Which examples go into one batch: pure functions from lengths to batches of positions.

A batch is padded to its longest item, so a batch has items of similar length; if an item has two
sides, a text and its translation, each side is padded to the longest of its own. Training should
still be close to independent draws: only items of one large random pool are sorted, and the batches
of all pools are shuffled. Batches may also be random: a model that computes nothing for padding
loses little by that, and for another each is cut into micro-batches where padding would cost more.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""Positions of items in the data, in the order of a batch."""

Step = list[Positions]
"""The micro-batches of one optimizer step, longest first."""

_LEAST_POOLS = {1: 4, 2: 2}
"""By the number of sides: items that must be similar on both sides need a larger pool."""

PASS_PADDING = 512
"""The most tokens of padding in a batch of a pass, and in a micro-batch of random items: they cost
about as much as one more batch, which often has a new shape."""


def plan_epoch(
    lengths: Sequence[int] | NDArray[np.integer],
    *,
    batch_size: int,
    batch_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    alike: bool = True,
    pool: int = 128,
    most_padding: float = math.inf,
) -> list[Step]:
    """Plan the optimizer steps of one epoch; every item is in exactly one.

    The plan depends on the arguments alone, not on the platform, numpy's version or earlier epochs.

    Args:
        lengths: tokens of each item, or of both its sides. Shape (N,) or (N, 2).
        batch_size: items per step; only the last step may have fewer.
        batch_tokens: the most tokens of a micro-batch, all sides and padding included. An item
            longer than that has a micro-batch of its own.
        seed: determines the order together with ``epoch``. Not negative.
        epoch: number of the epoch.
        shuffle: false keeps the order of the items.
        alike: whether a step has items of similar length; else it draws from all of them.
        pool: about how many batches are sorted by length together; fewer if that would leave less
            than four pools, or two of items with two sides.
        most_padding: the most tokens of padding in a micro-batch.
    """
    assert batch_size > 0
    assert batch_tokens > 0
    assert pool > 0
    sizes = _sides(lengths)
    if shuffle:
        drawn = np.random.SeedSequence([seed, epoch])
        batches = _bucketed(sizes, batch_size, pool if alike else None, drawn)
    else:
        batches = _cut(np.arange(len(sizes)), batch_size)
    return [
        _split(
            _longest_first(batch, sizes),
            sizes,
            batch_tokens,
            batch_size,
            most_padding=most_padding,
        )
        for batch in batches
    ]


def plan_pass(
    lengths: Sequence[int] | NDArray[np.integer],
    *,
    batch_tokens: int,
    max_items: int,
    most_padding: float = PASS_PADDING,
) -> list[Positions]:
    """Plan one pass over all items for prediction: the longest first, with the least padding.

    The first batch needs the most memory, so if memory is too small, that shows at once. The caller
    puts results back in order by their positions. A batch ends where more padding would cost more
    than another batch.

    Args:
        lengths: tokens of each item, or of both its sides. Shape (N,) or (N, 2).
        batch_tokens: the most tokens of a batch, all sides and padding included. An item longer
            than that has a batch of its own.
        max_items: the most items of a batch.
        most_padding: the most tokens of padding in a batch.
    """
    assert batch_tokens > 0
    assert max_items > 0
    if len(lengths) == 1:
        return [np.zeros(1, dtype=np.int64)]
    sizes = _sides(lengths)
    items = _longest_first(np.arange(len(sizes)), sizes)
    return _split(items, sizes, batch_tokens, max_items, most_padding=most_padding)


def _sides(lengths: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Return lengths as shape (N, sides)."""
    sizes = np.asarray(lengths, dtype=np.int64)
    return sizes[:, None] if sizes.ndim == 1 else sizes


def _bucketed(
    sizes: NDArray[np.int64], batch_size: int, pool: int | None, seed: "np.random.SeedSequence"
) -> list[Positions]:
    # numpy promises the raw output of a bit generator, but not that of `Generator.permutation`.
    bits = np.random.PCG64(seed)
    order = np.argsort(bits.random_raw(len(sizes)), kind="stable")
    if pool is None:
        return _cut(order, batch_size)
    num_batches = len(sizes) // batch_size
    whole = num_batches * batch_size
    # Several pools even for few items: with one, every epoch would have the same batches.
    num_pools = max(round(num_batches / pool), min(_LEAST_POOLS[sizes.shape[1]], num_batches))
    ends = [num_batches * (number + 1) // num_pools * batch_size for number in range(num_pools)]
    batches: list[Positions] = []
    for items in np.split(order[:whole], ends[:-1]):
        batches += _alike(items, sizes, batch_size)
    shuffled = [batches[i] for i in np.argsort(bits.random_raw(len(batches)), kind="stable")]
    return [*shuffled, *_cut(order[whole:], batch_size)]  # the rest is random, not the longest


def _alike(items: Positions, sizes: NDArray[np.int64], batch_size: int) -> list[Positions]:
    """Cut items into batches by halving them repeatedly into longer and shorter ones.

    Each time, items are sorted by one side, the other, or the longer of both, whichever leaves the
    least padding in the two halves.
    """
    if len(items) <= batch_size:
        return [items] if len(items) else []
    sides = sizes[items]  # (n, sides)
    half = -(-len(items) // batch_size) // 2 * batch_size
    total, longer = sides.sum(1), sides.max(1)
    keys = [*sides.T, longer] if sides.shape[1] > 1 else [total]
    best: list[Positions] = []
    least = np.inf
    for key in keys:
        # Of equally long items, the one with more tokens in all comes first.
        order = items[np.lexsort((-total, -key))]
        halves = [order[:half], order[half:]]
        padded = sum(len(part) * int(sizes[part].max(0).sum()) for part in halves)
        if padded < least:
            best, least = halves, padded
    return [batch for part in best for batch in _alike(part, sizes, batch_size)]


def _longest_first(items: Positions, sizes: NDArray[np.int64]) -> Positions:
    """Sort items by length; items of equal length keep their random order."""
    return items[np.argsort(-sizes[items].sum(1), kind="stable")]


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
    """Cut items, longest first, into few batches within all limits."""
    batches = []
    start = 0
    while start < len(items):
        next_ = sizes[items[start : start + max_items]]
        padded = np.maximum.accumulate(next_).sum(1) * np.arange(1, len(next_) + 1)  # (n,) ascends
        fits = int(np.searchsorted(padded, batch_tokens, side="right"))
        padding = padded - next_.sum(1).cumsum()  # ascends, too
        worth = int(np.searchsorted(padding, most_padding, side="right"))
        batch = items[start : start + max(min(fits, worth), 1)]
        batches.append(batch)
        start += len(batch)
    return batches
