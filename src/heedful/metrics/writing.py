"""Scores of written texts against the right ones: sacreBLEU does the work (Post 2018)."""

from collections.abc import Sequence
from typing import Any


def text_scores(written: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        written: the texts that were written.
        right: the right text for each; letters are compared in lower case.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(lowercase=True), CHRF(lowercase=True)
    references = [list(right)]
    return {
        "bleu": bleu.corpus_score(list(written), references).score,
        "chrf": chrf.corpus_score(list(written), references).score,
        "signatures": {
            "bleu": str(bleu.get_signature()),
            "chrf": str(chrf.get_signature()),
        },
    }
