"""Scores of written texts against the right ones: sacreBLEU does the work (Post 2018)."""

from collections.abc import Sequence
from typing import Any


def text_scores(texts: Sequence[str], references: Sequence[str], *, cased: bool) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        texts: the texts that were written.
        references: the right text for each.
        cased: whether capital letters count; if so there is a ``bleu_lowercase`` too.
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
    return scores | {"signatures": {n: str(metrics[n].get_signature()) for n in scores}}
