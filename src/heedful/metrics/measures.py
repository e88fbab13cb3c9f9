"""Metrics as functions of item weights, for bootstrap resampling.

The metric libraries are too slow for thousands of resamples. In this module every score is computed
from a few statistics of each item. Tests check that each score equals the library's on the whole
data.

Shapes: R resamples, N items, K statistics of an item, C classes, G distinct values.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.calibration import CALIBRATION_BINS, bins_of
from heedful.metrics.generation import score_of_statistics
from heedful.metrics.neighbours import DEPTHS

Statistics: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Statistics, Statistics], dict[str, Statistics]]
"""Maps the items' statistics, (N, K), and the weight of each item, (R, N), to scores, (R,) each."""

LOWER_IS_BETTER = frozenset({"ece", "mse", "perplexity"})
"""Scores for which lower is better."""


def ratio(above: Statistics, below: Statistics) -> Statistics:
    """Return the quotient; 0 divided by 0 is 0, as in the libraries' scores."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def f1(true_positives: Statistics, predicted: Statistics, true: Statistics) -> Statistics:
    """Return F1, the harmonic mean of precision and recall, from counts."""
    return ratio(2 * true_positives, predicted + true)


def means(*names: str) -> Measure:
    """Return a measure that takes the mean of each statistic.

    Args:
        names: the name of each statistic's mean.
    """

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        totals = weights @ columns  # (R, K)
        items = weights.sum(1)
        return {name: ratio(totals[:, at], items) for at, name in enumerate(names)}

    return measure


def both(first: Measure, second: Measure, *, at: int) -> Measure:
    """Return a measure that combines two.

    Args:
        first: the measure of the statistics before column ``at``.
        second: the measure of the statistics from column ``at`` on.
        at: the index of the second measure's first column.
    """

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        return first(columns[:, :at], weights) | second(columns[:, at:], weights)

    return measure


def classes(size: int) -> Measure:
    """Return the measure of single-label classification.

    An item's statistics are its true class, its predicted class, and the probability of the
    predicted class.

    Args:
        size: number of classes.
    """

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        # A matrix of all pairs of classes would fill the memory if there are many classes.
        pairs = columns[:, :2].astype(np.int64).T
        right = weights * (pairs[0] == pairs[1])  # (R, N)
        true, predicted = (_sum_by_bin(side, weights, size) for side in pairs)  # (R, C)
        hits = _sum_by_bin(pairs[0], right, size)  # (R, C)
        items = weights.sum(1)
        num_seen = (true + predicted > 0).sum(1).astype(np.float64)
        # Matthews correlation for several classes (Gorodkin 2004).
        variances = [items**2 - (side**2).sum(1) for side in (true, predicted)]
        covariance = hits.sum(1) * items - (true * predicted).sum(1)
        return {
            "accuracy": ratio(hits.sum(1), items),
            "macro_f1": ratio(f1(hits, predicted, true).sum(1), num_seen),
            "matthews": ratio(covariance, np.sqrt(variances[0] * variances[1])),
            "ece": _calibration_error(columns, weights),
        }

    return measure


def _calibration_error(columns: Statistics, weights: Statistics) -> Statistics:
    correct, confidence = columns[:, 0] == columns[:, 1], columns[:, 2]
    gaps = _sum_by_bin(bins_of(confidence), weights * (confidence - correct), CALIBRATION_BINS)
    return ratio(np.abs(gaps).sum(1), weights.sum(1))


def _sum_by_bin(bins: NDArray[np.int64], weights: Statistics, size: int) -> Statistics:
    """Sum the weights of each bin. Shapes: (N,), (R, N) to (R, bins)."""
    return np.stack([np.bincount(bins, row, minlength=size) for row in weights])


def label_sets(size: int) -> Measure:
    """Return the measure of multi-label classification.

    An item's statistics are a 0/1 indicator of each true label, a 0/1 indicator of each predicted
    label, and a 1 if all labels are correct.

    Args:
        size: number of labels.
    """

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        true, predicted = columns[:, :size], columns[:, size : 2 * size]
        true_positives, true, predicted = (
            weights @ (true * predicted),
            weights @ true,
            weights @ predicted,
        )
        return {
            "accuracy": ratio(weights @ columns[:, -1], weights.sum(1)),
            "macro_f1": f1(true_positives, predicted, true).mean(1),
            "micro_f1": f1(true_positives.sum(1), predicted.sum(1), true.sum(1)),
        }

    return measure


def entities(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score entity recognition. Statistics: number of correct, predicted and true entities."""
    correct, predicted, true = (weights @ columns).T
    return {
        "precision": ratio(correct, predicted),
        "recall": ratio(correct, true),
        "f1": f1(correct, predicted, true),
    }


def correlations(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Return the Pearson and Spearman correlations of an item's two values."""
    first, second = columns.T
    ranks = [_ranks(side, weights) for side in (first, second)]
    ones = np.ones_like(weights)
    return {
        "pearson": _correlation(first * ones, second * ones, weights),
        "spearman": _correlation(ranks[0], ranks[1], weights),
    }


def estimates(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score regression. Statistics: the prediction and the target."""
    errors = (columns[:, 0] - columns[:, 1]) ** 2
    return correlations(columns, weights) | {"mse": ratio(weights @ errors, weights.sum(1))}


def _correlation(first: Statistics, second: Statistics, weights: Statistics) -> Statistics:
    """Return the weighted Pearson correlation, 0 where it is undefined. (R, N) to (R,)."""
    items = weights.sum(1, keepdims=True)
    first_centred = first - (weights * first).sum(1, keepdims=True) / items
    second_centred = second - (weights * second).sum(1, keepdims=True) / items
    spread = np.sqrt((weights * first_centred**2).sum(1) * (weights * second_centred**2).sum(1))
    products = (weights * first_centred * second_centred).sum(1)
    # Rounding leaves a spread of equal values too.
    is_defined = _varies(first, weights) & _varies(second, weights)
    return np.where(is_defined, np.clip(ratio(products, spread), -1, 1), 0)


def _varies(values: Statistics, weights: Statistics) -> NDArray[np.bool_]:
    """Return whether each resample has different values. (R, N) to (R,)."""
    highest = np.where(weights > 0, values, -np.inf).max(1)
    return np.asarray(highest > np.where(weights > 0, values, np.inf).min(1))


def _ranks(values: Statistics, weights: Statistics) -> Statistics:
    """Return each item's rank in every resample; ties get their mean rank. Shape (R, N)."""
    distinct, groups = np.unique(values, return_inverse=True)  # (G,), (N,)
    sizes = _sum_by_bin(groups, weights, len(distinct))  # (R, G)
    return (np.cumsum(sizes, axis=1) - (sizes - 1) / 2)[:, groups]


def neighbours(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score retrieval by recall at each depth. Statistic: the rank of the partner, from 1."""
    items = weights.sum(1)
    hits = {depth: (columns[:, 0] <= depth).astype(np.float64) for depth in DEPTHS}
    return {f"recall_at_{depth}": ratio(weights @ hits[depth], items) for depth in DEPTHS}


def masked_tokens(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score masked-token prediction. Statistics: loss, correct tokens, masked tokens."""
    loss, correct, masked = (weights @ columns).T
    return {
        "masked_accuracy": ratio(correct, masked),
        "perplexity": np.exp(np.minimum(ratio(loss, masked), 700.0)),
    }


def next_tokens(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score next-token prediction. Statistics: loss, correct tokens, target tokens."""
    loss, correct, tokens = (weights @ columns).T
    mean = ratio(loss, tokens)
    return {
        "next_accuracy": ratio(correct, tokens),
        "log_likelihood": -mean,
        "perplexity": np.exp(np.minimum(mean, 700.0)),
    }


def detections(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score replaced-token detection.

    Statistics: number of tokens, of correctly classified tokens, of replaced tokens, of tokens
    predicted as replaced, and of replaced tokens predicted as replaced.
    """
    tokens, correct, replaced, flagged, caught = (weights @ columns).T
    return {
        "rtd_accuracy": ratio(correct, tokens),
        "always_original": ratio(tokens - replaced, tokens),
        "rtd_precision": ratio(caught, flagged),
        "rtd_recall": ratio(caught, replaced),
        "rtd_f1": f1(caught, flagged, replaced),
    }


def likelihood(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
    """Score texts by their likelihood. Statistics: log-likelihood and number of tokens."""
    if not columns[:, 1].any():  # no item has a likelihood
        return {}
    total, tokens = (weights @ columns).T
    mean = ratio(total, tokens)
    return {"log_likelihood": mean, "perplexity": np.exp(np.minimum(-mean, 700.0))}


def texts(metrics: Mapping[str, Any], sizes: Sequence[int]) -> Measure:
    """Return the measure of generated texts.

    An item's statistics are its contributions to the corpus statistics of each metric.

    Args:
        metrics: from `heedful.metrics.generation.text_metrics`.
        sizes: number of statistics of each metric.
    """

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        totals = weights @ columns  # (R, K)
        scores, start = {}, 0
        for (name, metric), size in zip(metrics.items(), sizes, strict=True):
            rows = totals[:, start : start + size]
            scores[name] = np.array([score_of_statistics(metric, row) for row in rows])
            start += size
        return scores

    return measure
