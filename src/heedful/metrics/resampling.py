"""How far scores may be trusted: bootstraps (Efron 1979) and exact tests, by scipy.

Shapes: R resamples, N items, K numbers of an item.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.measures import Measure, Numbers

RESAMPLES = 2000
CONFIDENCE = 0.95
_AT_ONCE = 2**20
"""Draws that are held in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """What a score would likely be on other data of the same kind."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How much a second run scores above a first one on the same items."""

    first: float
    second: float
    low: float
    """The difference is likely above this."""
    high: float
    p_value: float
    """How often a difference as large would come about if there were none."""

    @property
    def difference(self) -> float:
        """The second score less the first."""
        return self.second - self.first


def on_all(measure: Measure, columns: Numbers) -> dict[str, float]:
    """Return the scores of all items, each counted once."""
    scores = measure(columns, np.ones((1, len(columns))))
    return {name: float(score[0]) for name, score in scores.items()}


def intervals(
    measure: Measure, columns: Numbers, *, seed: int, resamples: int = RESAMPLES
) -> dict[str, Interval]:
    """Return each score of some items with its 95 % interval: the percentiles of a bootstrap.

    Args:
        measure: the scores.
        columns: the numbers of each item, of at least two. Shape (N, K).
        seed: decides what is drawn.
        resamples: how often all items are drawn anew.
    """
    scores = on_all(measure, columns)
    drawn = _bootstrap([measure], [columns], seed=seed, resamples=resamples)[0]  # (scores, R)
    return {
        name: Interval(score=score, low=low, high=high)
        for (name, score), (low, high) in zip(scores.items(), _limits(drawn), strict=True)
    }


def differences(
    measures: Sequence[Measure],
    columns: Sequence[Numbers],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> dict[str, Difference]:
    """Compare two runs on the same items by a paired bootstrap (Koehn 2004).

    The p value is two-sided: how often a resample's difference is as far from the one that was
    seen as that one is from none.

    Args:
        measures: the scores of the first run and of the second.
        columns: the numbers of each item for either, at least two items. Shapes (N, K).
        seed: decides what is drawn.
        resamples: how often all items are drawn anew.
    """
    first, second = (on_all(*one) for one in zip(measures, columns, strict=True))
    drawn = _bootstrap(measures, columns, seed=seed, resamples=resamples)
    apart = drawn[1] - drawn[0]  # (scores, R)
    result = {}
    for (name, score), row, (low, high) in zip(first.items(), apart, _limits(apart), strict=True):
        seen = second[name] - score
        # Rounding must not decide where all differences are the same.
        as_far = np.abs(row - seen) >= abs(seen) - 1e-12
        result[name] = Difference(
            first=score,
            second=second[name],
            low=low,
            high=high,
            p_value=float((as_far.sum() + 1) / (resamples + 1)),
        )
    return result


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the exact p value of McNemar's test: whether one run is right more often.

    Only items that one of them has right and the other wrong count; were the runs equally good,
    either would have half of them (McNemar 1947).

    Args:
        first: which items the first run has right. Shape (N,).
        second: the same of the second.
    """
    from scipy.stats import binomtest

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if not only_first + only_second:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def _bootstrap(
    measures: Sequence[Measure], columns: Sequence[Numbers], *, seed: int, resamples: int
) -> list[Numbers]:
    """Draw the items anew, the same for every run; return the scores. Shapes (scores, R)."""
    from scipy.stats import bootstrap

    items = len(columns[0])
    assert items >= 2, "one item cannot be drawn anew"
    names = len(on_all(measures[0], columns[0]))

    def scores(drawn: NDArray[np.int64], axis: int) -> Numbers:
        weights = np.stack([np.bincount(row, minlength=items) for row in np.atleast_2d(drawn)])
        counts = weights.astype(np.float64)  # (R, N)
        rows = [
            row
            for measure, numbers in zip(measures, columns, strict=True)
            for row in measure(numbers, counts).values()
        ]
        stacked = np.stack(rows)  # (runs * scores, R)
        return stacked if drawn.ndim > 1 else stacked[:, 0]

    drawn = bootstrap(
        (np.arange(items),),
        scores,
        vectorized=True,
        axis=-1,
        n_resamples=resamples,
        batch=max(1, _AT_ONCE // items),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    return [drawn[start : start + names] for start in range(0, len(drawn), names)]


def _limits(drawn: Numbers) -> list[tuple[float, float]]:
    """Return the ends of the interval that holds 95 % of each row. Shape (scores, R)."""
    beyond = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [beyond, 1 - beyond], axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))
