"""Scores of generated texts against references, by sacreBLEU (Post 2018)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=2)
def text_metrics(*, cased: bool) -> dict[str, Any]:
    """Return sacreBLEU's metrics of texts, by the keys of our scores, in their order.

    Args:
        cased: whether capital letters matter; if so, there is a ``bleu_lowercase``, too.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metrics = {"bleu": BLEU(lowercase=not cased), "chrf": CHRF(lowercase=not cased)}
    if cased:
        metrics["bleu_lowercase"] = BLEU(lowercase=True)
    return dict(sorted(metrics.items()))


def text_scores(texts: Sequence[str], references: Sequence[str], *, cased: bool) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        texts: the generated texts.
        references: the reference for each.
        cased: see `text_metrics`.
    """
    metrics = text_metrics(cased=cased)
    scores = {
        name: metric.corpus_score(list(texts), [list(references)]).score
        for name, metric in metrics.items()
    }
    return scores | {"signatures": {name: str(metrics[name].get_signature()) for name in scores}}


# The library's own significance tests go by these two calls of its metrics.


def text_statistics(metric: Any, text: str, reference: str) -> list[int]:
    """Return what one text adds to the statistics that a metric of `text_metrics` is made from."""
    (statistics,) = metric._extract_corpus_statistics([text], [[reference]])
    return list(statistics)


def score_of_statistics(metric: Any, statistics: Sequence[float]) -> float:
    """Return a metric's score of some texts from the sum of their statistics."""
    return float(metric._compute_score_from_stats(list(statistics)).score)
