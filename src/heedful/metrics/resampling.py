"""Confidence intervals and significance tests: bootstrap (Efron 1979) and exact tests, by SciPy.

Shapes: R resamples, N items, K statistics of an item.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.measures import Measure, Statistics

RESAMPLES = 2000
CONFIDENCE = 0.95
_MAX_DRAWN_ITEMS = 2**20
"""Maximum number of drawn items held in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A score with its bootstrap confidence interval."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Difference between the scores of two runs on the same items."""

    first: float
    second: float
    low: float
    """Lower end of the difference's confidence interval."""
    high: float
    p_value: float
    """Probability of a difference at least this large if the runs were equally good."""

    @property
    def difference(self) -> float:
        """The second score minus the first."""
        return self.second - self.first


def point_estimates(measure: Measure, columns: Statistics) -> dict[str, float]:
    """Return the scores of the original sample: each item has weight 1."""
    scores = measure(columns, np.ones((1, len(columns))))
    return {name: float(score[0]) for name, score in scores.items()}


def intervals(
    measure: Measure, columns: Statistics, *, seed: int, resamples: int = RESAMPLES
) -> dict[str, Interval]:
    """Return each score with its 95 % confidence interval, by the percentile bootstrap.

    Args:
        measure: computes the scores.
        columns: the statistics of each item; at least two items. Shape (N, K).
        seed: the seed of the resampling.
        resamples: number of bootstrap resamples.
    """
    scores = point_estimates(measure, columns)
    # Shape (scores, R).
    drawn = _bootstrap([measure], [columns], [*scores], seed=seed, resamples=resamples)[0]
    return {
        name: Interval(score=score, low=low, high=high)
        for (name, score), (low, high) in zip(
            scores.items(), _confidence_limits(drawn), strict=True
        )
    }


def differences(
    measures: Sequence[Measure],
    columns: Sequence[Statistics],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> dict[str, Difference]:
    """Compare two runs on the same items by a paired bootstrap (Koehn 2004).

    Only scores of both runs are compared. A run may lack one, such as the likelihood of texts that
    its vocabulary cannot write.

    The p value is two-sided: the fraction of resamples whose difference is at least as far from the
    observed difference as the observed difference is from 0.

    Args:
        measures: computes the scores, for the first and the second run.
        columns: the statistics of each item, for each run; at least two items. Shapes (N, K).
        seed: the seed of the resampling.
        resamples: number of bootstrap resamples.
    """
    first, second = (point_estimates(*one) for one in zip(measures, columns, strict=True))
    names = [name for name in first if name in second]
    if not names:
        return {}
    drawn = _bootstrap(measures, columns, names, seed=seed, resamples=resamples)
    differences_drawn = drawn[1] - drawn[0]  # (scores, R)
    result = {}
    for name, row, (low, high) in zip(
        names, differences_drawn, _confidence_limits(differences_drawn), strict=True
    ):
        observed = second[name] - first[name]
        # The tolerance keeps rounding errors from deciding when all differences are equal. They
        # grow with the scores, which may be tiny.
        tolerance = 1e-12 * max(abs(first[name]), abs(second[name]))
        is_as_extreme = np.abs(row - observed) >= abs(observed) - tolerance
        result[name] = Difference(
            first=first[name],
            second=second[name],
            low=low,
            high=high,
            p_value=float((is_as_extreme.sum() + 1) / (resamples + 1)),
        )
    return result


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the exact p value of McNemar's test of whether one run is correct more often.

    Only items that exactly one run has correct count. If the runs were equally good, each would
    have half of these items correct (McNemar 1947).

    Args:
        first: which items the first run has correct. Shape (N,).
        second: which items the second run has correct. Shape (N,).
    """
    from scipy.stats import binomtest

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if not only_first + only_second:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def _bootstrap(
    measures: Sequence[Measure],
    columns: Sequence[Statistics],
    names: Sequence[str],
    *,
    seed: int,
    resamples: int,
) -> list[Statistics]:
    """Return each run's named scores of bootstrap resamples, which all runs share.

    Shapes: (scores, R) each.
    """
    from scipy.stats import bootstrap

    items = len(columns[0])
    assert items >= 2, "resampling needs at least 2 items"

    def scores(drawn: NDArray[np.int64], axis: int) -> Statistics:
        weights = np.stack([np.bincount(row, minlength=items) for row in np.atleast_2d(drawn)])
        counts = weights.astype(np.float64)  # (R, N)
        of_runs = [
            measure(statistics, counts)
            for measure, statistics in zip(measures, columns, strict=True)
        ]
        stacked = np.stack([of_run[name] for of_run in of_runs for name in names])
        return stacked if drawn.ndim > 1 else stacked[:, 0]

    drawn = bootstrap(
        (np.arange(items),),
        scores,
        vectorized=True,
        axis=-1,
        n_resamples=resamples,
        batch=max(1, _MAX_DRAWN_ITEMS // items),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    return [drawn[start : start + len(names)] for start in range(0, len(drawn), len(names))]


def _confidence_limits(drawn: Statistics) -> list[tuple[float, float]]:
    """Return the central 95 % interval of each row. Shape (scores, R)."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))
