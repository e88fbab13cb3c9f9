"""Scores of generated texts against references, by sacreBLEU (Post 2018)."""

from collections.abc import Sequence
from typing import Any


def text_scores(texts: Sequence[str], references: Sequence[str], *, cased: bool) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        texts: the generated texts.
        references: the reference for each.
        cased: whether capital letters matter; if so, there is a ``bleu_lowercase``, too.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metrics = {"bleu": BLEU(lowercase=not cased), "chrf": CHRF(lowercase=not cased)}
    if cased:
        metrics["bleu_lowercase"] = BLEU(lowercase=True)
    scores = {
        name: metric.corpus_score(list(texts), [list(references)]).score
        for name, metric in sorted(metrics.items())
    }
    return scores | {"signatures": {name: str(metrics[name].get_signature()) for name in scores}}
