"""Group examples into batches: pure functions from lengths to batches of positions.

A batch is padded to its longest item, so a batch has items of similar length. If an item has two
sides, a text and its translation, each side is padded separately. Training should still be close
to independent draws. So items are sorted by length only within one large random pool, and the
batches of all pools are shuffled. Batches may also be random. That costs little for a model that
skips padding. For other models, a random batch is split into micro-batches to limit padding.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""Positions of items in the data, in the order of a batch."""

Step = list[Positions]
"""The micro-batches of one optimizer step, longest first."""

_MIN_POOLS = {1: 4, 2: 2}
"""Minimum number of pools, by number of sides. Matching both sides needs larger pools."""

MAX_PADDING = 512
"""Maximum padding tokens in a batch of a pass, or in a micro-batch of random items. That much
padding costs about as much as one more batch, which often has a new shape."""


def plan_epoch(
    lengths: Sequence[int] | NDArray[np.integer],
    *,
    batch_size: int,
    batch_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    similar_lengths: bool = True,
    pool: int = 128,
    max_padding: float = math.inf,
) -> list[Step]:
    """Plan the optimizer steps of one epoch; every item is in exactly one.

    The plan depends only on the arguments, not on the platform, numpy's version or earlier epochs.

    Args:
        lengths: token count of each item, or of both its sides. Shape (N,) or (N, 2).
        batch_size: items per step. Only the last step may have fewer.
        batch_tokens: maximum tokens per micro-batch, all sides and padding included. A longer item
            gets a micro-batch of its own.
        seed: determines the order, with ``epoch``. Not negative.
        epoch: number of the epoch.
        shuffle: whether to shuffle. False keeps the order of the items.
        similar_lengths: whether a step has items of similar length. If not, it draws from all
            items.
        pool: approximate number of batches to sort by length as one pool. It is reduced where
            fewer than four pools would remain, or fewer than two for items with two sides.
        max_padding: maximum padding tokens per micro-batch.
    """
    assert batch_size > 0
    assert batch_tokens > 0
    assert pool > 0
    sizes = _sides(lengths)
    if shuffle:
        seed_sequence = np.random.SeedSequence([seed, epoch])
        batches = _bucketed(sizes, batch_size, pool if similar_lengths else None, seed_sequence)
    else:
        batches = _chunks(np.arange(len(sizes)), batch_size)
    return [
        _split(
            _longest_first(batch, sizes),
            sizes,
            batch_tokens,
            batch_size,
            max_padding=max_padding,
        )
        for batch in batches
    ]


def plan_pass(
    lengths: Sequence[int] | NDArray[np.integer],
    *,
    batch_tokens: int,
    max_items: int,
    max_padding: float = MAX_PADDING,
) -> list[Positions]:
    """Plan one pass over all items for prediction, longest first, with the least padding.

    The first batch needs the most memory, so a run that lacks memory fails immediately. The caller
    restores the original order of the results from the positions. A batch ends where more padding
    would cost more than another batch.

    Args:
        lengths: token count of each item, or of both its sides. Shape (N,) or (N, 2).
        batch_tokens: maximum tokens per batch, all sides and padding included. A longer item gets
            a batch of its own.
        max_items: maximum items per batch.
        max_padding: maximum padding tokens per batch.
    """
    assert batch_tokens > 0
    assert max_items > 0
    if len(lengths) == 1:
        return [np.zeros(1, dtype=np.int64)]
    sizes = _sides(lengths)
    items = _longest_first(np.arange(len(sizes)), sizes)
    return _split(items, sizes, batch_tokens, max_items, max_padding=max_padding)


def _sides(lengths: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Return lengths as shape (N, sides)."""
    sizes = np.asarray(lengths, dtype=np.int64)
    return sizes[:, None] if sizes.ndim == 1 else sizes


def _bucketed(
    sizes: NDArray[np.int64], batch_size: int, pool: int | None, seed: "np.random.SeedSequence"
) -> list[Positions]:
    # numpy guarantees the raw output of a bit generator, but not that of `Generator.permutation`.
    generator = np.random.PCG64(seed)
    order = np.argsort(generator.random_raw(len(sizes)), kind="stable")
    if pool is None:
        return _chunks(order, batch_size)
    num_batches = len(sizes) // batch_size
    num_full = num_batches * batch_size
    # Several pools even for few items. With one pool, every epoch would have the same batches.
    num_pools = max(round(num_batches / pool), min(_MIN_POOLS[sizes.shape[1]], num_batches))
    ends = [num_batches * (i + 1) // num_pools * batch_size for i in range(num_pools)]
    batches: list[Positions] = []
    for items in np.split(order[:num_full], ends[:-1]):
        batches += _halved(items, sizes, batch_size)
    shuffled = [batches[i] for i in np.argsort(generator.random_raw(len(batches)), kind="stable")]
    # The remainder is random, not the longest items.
    return [*shuffled, *_chunks(order[num_full:], batch_size)]


def _halved(items: Positions, sizes: NDArray[np.int64], batch_size: int) -> list[Positions]:
    """Divide items into batches by repeatedly halving them into longer and shorter items.

    Each time, the items are sorted by one side, by the other, or by the longer of both. The sort
    key with the least padding in the two halves wins.
    """
    if len(items) <= batch_size:
        return [items] if len(items) else []
    sides = sizes[items]  # (n, sides)
    half = -(-len(items) // batch_size) // 2 * batch_size
    total, longer = sides.sum(1), sides.max(1)
    keys = [*sides.T, longer] if sides.shape[1] > 1 else [total]
    best: list[Positions] = []
    least_padded = np.inf
    for key in keys:
        # Among items with equal keys, the one with more tokens in total comes first.
        order = items[np.lexsort((-total, -key))]
        halves = [order[:half], order[half:]]
        padded = sum(len(part) * int(sizes[part].max(0).sum()) for part in halves)
        if padded < least_padded:
            best, least_padded = halves, padded
    return [batch for part in best for batch in _halved(part, sizes, batch_size)]


def _longest_first(items: Positions, sizes: NDArray[np.int64]) -> Positions:
    """Sort items by length; items of equal length keep their random order."""
    return items[np.argsort(-sizes[items].sum(1), kind="stable")]


def _chunks(items: Positions, size: int) -> list[Positions]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _split(
    items: Positions,
    sizes: NDArray[np.int64],
    batch_tokens: int,
    max_items: int,
    *,
    max_padding: float = math.inf,
) -> list[Positions]:
    """Split items, longest first, into as few batches as the limits allow."""
    batches = []
    start = 0
    while start < len(items):
        candidates = sizes[items[start : start + max_items]]
        # Both counts below ascend. Shape (n,).
        padded = np.maximum.accumulate(candidates).sum(1) * np.arange(1, len(candidates) + 1)
        max_fitting = int(np.searchsorted(padded, batch_tokens, side="right"))
        padding = padded - candidates.sum(1).cumsum()
        max_worthwhile = int(np.searchsorted(padding, max_padding, side="right"))
        batch = items[start : start + max(min(max_fitting, max_worthwhile), 1)]
        batches.append(batch)
        start += len(batch)
    return batches
