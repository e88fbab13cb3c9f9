"""Scores as functions of how often each item counts, so that a bootstrap can draw items anew.

The libraries score data as it is; for thousands of resamples they are too slow. Here every score
follows from a few numbers of each item. Tests hold each equal to the library's on the whole data.

Shapes: R resamples, N items, K numbers of an item, C classes, G different numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.calibration import CALIBRATION_BINS, bins_of
from heedful.metrics.generation import score_of_statistics
from heedful.metrics.neighbours import DEPTHS

Numbers: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Numbers, Numbers], dict[str, Numbers]]
"""The items' numbers, (N, K), and how often each item counts, (R, N), to each score, (R,)."""

LOWER_IS_BETTER = frozenset({"ece", "mse", "perplexity"})
"""Scores of which less is better."""


def ratio(above: Numbers, below: Numbers) -> Numbers:
    """Divide; 0 divided by 0 is 0, as where the libraries score."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def f1(true_positives: Numbers, predicted: Numbers, true: Numbers) -> Numbers:
    """Return the harmonic mean of precision and recall."""
    return ratio(2 * true_positives, predicted + true)


def means(*names: str) -> Measure:
    """Measure by the mean of each of an item's numbers."""

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        totals = weights @ columns  # (R, K)
        items = weights.sum(1)
        return {name: ratio(totals[:, at], items) for at, name in enumerate(names)}

    return measure


def both(first: Measure, second: Measure, *, at: int) -> Measure:
    """Measure the first numbers of an item in one way, and those from ``at`` on in another."""

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        return first(columns[:, :at], weights) | second(columns[:, at:], weights)

    return measure


def classes(size: int) -> Measure:
    """Measure decisions for one of some classes.

    An item's numbers are its true class, the likeliest one, and the probability of that.

    Args:
        size: how many classes there are.
    """

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        cells = (columns[:, 0] * size + columns[:, 1]).astype(np.int64)  # (N,)
        matrix = _binned(cells, weights, size * size).reshape(-1, size, size)  # (R, C, C)
        hits = matrix.diagonal(axis1=1, axis2=2)  # (R, C)
        true, predicted, items = matrix.sum(2), matrix.sum(1), matrix.sum((1, 2))
        seen = (true + predicted > 0).sum(1).astype(np.float64)
        # Gorodkin 2004: the correlation of two assignments to classes.
        spread = [items**2 - (side**2).sum(1) for side in (true, predicted)]
        together = hits.sum(1) * items - (true * predicted).sum(1)
        return {
            "accuracy": ratio(hits.sum(1), items),
            "macro_f1": ratio(f1(hits, predicted, true).sum(1), seen),
            "matthews": ratio(together, np.sqrt(spread[0] * spread[1])),
            "ece": _calibration_error(columns, weights),
        }

    return measure


def _calibration_error(columns: Numbers, weights: Numbers) -> Numbers:
    right, confidence = columns[:, 0] == columns[:, 1], columns[:, 2]
    gaps = _binned(bins_of(confidence), weights * (confidence - right), CALIBRATION_BINS)
    return ratio(np.abs(gaps).sum(1), weights.sum(1))


def _binned(bins: NDArray[np.int64], weights: Numbers, size: int) -> Numbers:
    """Add up the weights of each bin. Shapes: (N,), (R, N) to (R, bins)."""
    return np.stack([np.bincount(bins, row, minlength=size) for row in weights])


def label_sets(size: int) -> Measure:
    """Measure decisions for any number of labels.

    An item's numbers are a 1 for each true label, a 1 for each predicted one, and a 1 if all are
    right.

    Args:
        size: how many labels there are.
    """

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        true, predicted = columns[:, :size], columns[:, size : 2 * size]
        hits, true, predicted = weights @ (true * predicted), weights @ true, weights @ predicted
        return {
            "accuracy": ratio(weights @ columns[:, -1], weights.sum(1)),
            "macro_f1": f1(hits, predicted, true).mean(1),
            "micro_f1": f1(hits.sum(1), predicted.sum(1), true.sum(1)),
        }

    return measure


def entities(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure entities. An item's numbers: those that are right, predicted, true."""
    right, predicted, true = (weights @ columns).T
    return {
        "precision": ratio(right, predicted),
        "recall": ratio(right, true),
        "f1": f1(right, predicted, true),
    }


def correlations(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure how two numbers of an item go together."""
    first, second = columns.T
    ranks = [_ranks(side, weights) for side in (first, second)]
    same = np.ones_like(weights)
    return {
        "pearson": _correlation(first * same, second * same, weights),
        "spearman": _correlation(ranks[0], ranks[1], weights),
    }


def estimates(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure estimates. An item's numbers: the estimate and the truth."""
    errors = (columns[:, 0] - columns[:, 1]) ** 2
    return correlations(columns, weights) | {"mse": ratio(weights @ errors, weights.sum(1))}


def _correlation(first: Numbers, second: Numbers, weights: Numbers) -> Numbers:
    """Return Pearson's correlation of weighted items, 0 where there is none. (R, N) to (R,)."""
    items = weights.sum(1, keepdims=True)
    one = first - (weights * first).sum(1, keepdims=True) / items
    other = second - (weights * second).sum(1, keepdims=True) / items
    spread = np.sqrt((weights * one**2).sum(1) * (weights * other**2).sum(1))
    return np.clip(ratio((weights * one * other).sum(1), spread), -1, 1)


def _ranks(numbers: Numbers, weights: Numbers) -> Numbers:
    """Return each item's rank in every resample, of equal numbers their mean. (R, N)."""
    distinct, groups = np.unique(numbers, return_inverse=True)  # (G,), (N,)
    sizes = _binned(groups, weights, len(distinct))  # (R, G)
    return (np.cumsum(sizes, axis=1) - (sizes - 1) / 2)[:, groups]


def neighbours(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure the search for partners. An item's number is the rank of its partner, from 1."""
    items = weights.sum(1)
    hits = {depth: (columns[:, 0] <= depth).astype(np.float64) for depth in DEPTHS}
    return {f"recall_at_{depth}": ratio(weights @ hits[depth], items) for depth in DEPTHS}


def masked_tokens(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure sequences with masks. An item's numbers: loss, tokens told right, tokens masked."""
    loss, right, masked = (weights @ columns).T
    return {
        "masked_accuracy": ratio(right, masked),
        "perplexity": np.exp(np.minimum(ratio(loss, masked), 700.0)),
    }


def next_tokens(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure running text. An item's numbers: loss, tokens told right, tokens to tell."""
    loss, right, tokens = (weights @ columns).T
    mean = ratio(loss, tokens)
    return {
        "next_accuracy": ratio(right, tokens),
        "log_likelihood": -mean,
        "perplexity": np.exp(np.minimum(mean, 700.0)),
    }


def detections(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure replaced tokens among original ones.

    An item's numbers: its tokens, those told right, replaced, that looked replaced, and both.
    """
    tokens, right, replaced, flagged, caught = (weights @ columns).T
    return {
        "rtd_accuracy": ratio(right, tokens),
        "always_original": ratio(tokens - replaced, tokens),
        "rtd_precision": ratio(caught, flagged),
        "rtd_recall": ratio(caught, replaced),
        "rtd_f1": f1(caught, flagged, replaced),
    }


def likelihood(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
    """Measure how likely texts are. An item's numbers: log-likelihood and tokens."""
    if not columns[:, 1].any():  # it can be told of no item
        return {}
    total, tokens = (weights @ columns).T
    mean = ratio(total, tokens)
    return {"log_likelihood": mean, "perplexity": np.exp(np.minimum(-mean, 700.0))}


def texts(metrics: Mapping[str, Any], sizes: Sequence[int]) -> Measure:
    """Measure written texts. An item's numbers: what it adds to each metric's statistics.

    Args:
        metrics: of `heedful.metrics.generation.text_metrics`.
        sizes: how many numbers each has.
    """

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        totals = weights @ columns  # (R, K)
        scores, start = {}, 0
        for (name, metric), size in zip(metrics.items(), sizes, strict=True):
            rows = totals[:, start : start + size]
            scores[name] = np.array([score_of_statistics(metric, row) for row in rows])
            start += size
        return scores

    return measure
