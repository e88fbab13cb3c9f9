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


def translation_scores(written: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """Return ``bleu``, ``bleu_lowercase`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        written: the translations that were written.
        right: the right one for each; but for ``bleu_lowercase`` capital letters count.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    kinds = {"bleu": BLEU(), "bleu_lowercase": BLEU(lowercase=True), "chrf": CHRF()}
    references = [list(right)]
    scores = {
        name: kind.corpus_score(list(written), references).score for name, kind in kinds.items()
    }
    return scores | {"signatures": {n: str(kind.get_signature()) for n, kind in kinds.items()}}
