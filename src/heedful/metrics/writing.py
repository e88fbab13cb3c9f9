"""Scores of generated texts against references, by sacreBLEU (Post 2018)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

_DRAWN = 20_000_000
"""Texts that the tests of two systems draw at once."""


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


def paired_tests(
    metrics: Mapping[str, Any],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Test whether two systems differ, by sacreBLEU's own tests.

    Args:
        metrics: of `text_metrics`.
        systems: the texts of the first and of the second.
        references: the right texts.
        seed: decides what is drawn.

    Returns:
        For each metric the p values of both tests, by name: approximate randomization (Riezler and
        Maxwell 2005) and a paired bootstrap (Koehn 2004). Both hold all that they draw in memory,
        so more texts are drawn less often: 1,000 to 10,000 times, and 100 to 1,000 times.
    """
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [
        (str(number), list(texts)) for number, texts in enumerate(systems)
    ]
    items = len(references)
    tests = {
        "approximate randomization (sacreBLEU)": ("ar", min(max(_DRAWN // items, 1000), 10_000)),
        "paired bootstrap (sacreBLEU)": ("bs", min(max(_DRAWN // (10 * items), 100), 1000)),
    }
    p_values: dict[str, dict[str, float]] = {}
    for name, metric in metrics.items():
        p_values[name] = {}
        for test, (kind, count) in tests.items():
            paired = PairedTest(named, {name: metric}, [list(references)], kind, count)
            paired._seed = seed + 1  # else it is that of an environment variable; and 0 is none
            results: dict[str, Any] = dict(paired()[1])
            (rows,) = (rows for key, rows in results.items() if key != "System")
            p_values[name][test] = float(rows[1].p_value)
    return p_values
