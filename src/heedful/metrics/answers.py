"""Scores of answers to questions: torchmetrics compares texts, this file counts.

A question may have no answer (SQuAD 2.0, Rajpurkar et al. 2018). Then a model gives none where its
margin, how far giving none outscores its best answer, is above a threshold.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

KEYS = ("exact_match", "f1")

# N questions


class AnswerScores:
    """Collects answers and gives their scores; of each question some numbers are kept.

    Args:
        may_be_silent: whether the model may give no answer, so that a threshold decides.
    """

    def __init__(self, may_be_silent: bool = False) -> None:
        self._may_be_silent = may_be_silent
        self._answerable: list[bool] = []
        self._given: list[bool] = []
        self._margins: list[float] = []
        self._answered: list[tuple[float, ...]] = []
        self._silent: list[tuple[float, ...]] = []

    def update(self, best: str, right: Sequence[str], *, given: bool, margin: float) -> None:
        """Count one question.

        Args:
            best: the model's best answer, whether it was given or not.
            right: every right answer; none where the question has no answer.
            given: whether it was given, instead of none.
            margin: how far giving none outscored it.
        """
        self._answerable.append(bool(right))
        self._given.append(given)
        self._margins.append(margin)
        self._answered.append(_compare(best, right))
        self._silent.append(_compare("", right))

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        ``exact_match`` and ``f1`` are means from 0 to 1 of the official SQuAD scores: answers
        compared without case, punctuation and articles, as a whole or as bags of words, each with
        the right answer that is nearest. ``items`` counts the questions.

        Where some question has no answer, ``answerable`` and ``unanswerable`` hold the same three
        for either kind. Where the model may give none, ``best_threshold`` holds the threshold at
        which ``f1`` is highest on these questions, and the scores with it.

        Raises:
            UserError: nothing was counted.
        """
        if not self._given:
            raise UserError("no questions to score: the data is empty")
        answerable, given = np.array(self._answerable), np.array(self._given)
        answered, silent = np.array(self._answered), np.array(self._silent)  # (N, 2)
        scores = np.where(given[:, None], answered, silent)
        result: dict[str, Any] = _means(scores)
        if not answerable.all():
            result["answerable"] = _means(scores[answerable])
            result["unanswerable"] = _means(scores[~answerable])
        if self._may_be_silent:
            result["best_threshold"] = _best_threshold(np.array(self._margins), answered, silent)
        return result


def _compare(answer: str, right: Sequence[str]) -> tuple[float, ...]:
    """Return the exact match and the F1 of one answer; the empty one is right where none is."""
    from torchmetrics.functional.text import squad

    scores = squad(
        [{"id": "", "prediction_text": answer}],
        [{"id": "", "answers": {"text": list(right) or [""]}}],
    )
    return tuple(float(scores[key]) / 100 for key in KEYS)


def _means(scores: NDArray[np.float64]) -> dict[str, float]:
    means = scores.mean(axis=0) if len(scores) else np.zeros(len(KEYS))
    # The library computes in single precision: digits beyond its own would be noise.
    return {"items": len(scores)} | dict(zip(KEYS, means.round(6).tolist(), strict=True))


def _best_threshold(
    margins: NDArray[np.float64], answered: NDArray[np.float64], silent: NDArray[np.float64]
) -> dict[str, float]:
    """Try every margin as the threshold, and one below all of them.

    Shape:
        margins (N,); answered and silent (N, 2), the scores with and without giving the answer.
    """
    order = np.argsort(margins, kind="stable")
    ordered = margins[order]
    gains = (answered - silent)[order].cumsum(axis=0)
    totals = silent.sum(axis=0) + np.vstack([np.zeros(len(KEYS)), gains])  # (N + 1, 2)
    # Row k answers the first k questions: possible only where the next has another margin.
    possible = np.append(np.append(True, ordered[1:] != ordered[:-1]), True)
    best = int(np.where(possible, totals[:, KEYS.index("f1")], -1).argmax())
    threshold = ordered[best - 1] if best else ordered[0] - 1
    scores = _means((totals[best] / len(margins))[None])
    return {"threshold": float(threshold)} | {key: scores[key] for key in KEYS}
