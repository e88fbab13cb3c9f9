"""Scores of answers to questions: torchmetrics compares texts, this file counts.

A question may have no answer (SQuAD 2.0, Rajpurkar et al. 2018). A model gives no answer if its
margin, by which "no answer" outscores its best answer, is above a threshold.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

KEYS = ("exact_match", "f1")

# N questions


class AnswerScores:
    """Collects answers and scores them; it keeps some numbers for each question.

    Args:
        no_answer: whether the model may give no answer, so that a threshold decides.
    """

    def __init__(self, no_answer: bool = False) -> None:
        self._no_answer = no_answer
        self._answerable: list[bool] = []
        self._answered: list[bool] = []
        self._margins: list[float] = []
        self._with_answer: list[tuple[float, ...]] = []
        self._without_answer: list[tuple[float, ...]] = []

    def update(self, best: str, right: Sequence[str], *, answered: bool, margin: float) -> None:
        """Count one question.

        Args:
            best: the model's best answer, whether it gave it or not.
            right: all right answers; none if the question has no answer.
            answered: whether the model gave its best answer.
            margin: by how much "no answer" outscored it.
        """
        self._answerable.append(bool(right))
        self._answered.append(answered)
        self._margins.append(margin)
        self._with_answer.append(compare(best, right))
        self._without_answer.append(compare("", right))

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        ``exact_match`` and ``f1`` are means from 0 to 1 of the official SQuAD scores: answers are
        compared without case, punctuation and articles, as a whole or as bags of words, each with
        the nearest right answer. ``items`` counts the questions.

        If some questions have no answer, ``answerable`` and ``unanswerable`` hold the same three
        for either kind. If the model may give no answer, ``best_threshold`` holds the threshold
        with the highest ``f1`` on these questions, and its scores.

        Raises:
            UserError: nothing was counted.
        """
        if not self._answered:
            raise UserError("no questions to score: the data is empty")
        answerable, answered = np.array(self._answerable), np.array(self._answered)
        with_answer, without = np.array(self._with_answer), np.array(self._without_answer)  # (N, 2)
        scores = np.where(answered[:, None], with_answer, without)
        result: dict[str, Any] = _means(scores)
        if not answerable.all():
            result["answerable"] = _means(scores[answerable])
            result["unanswerable"] = _means(scores[~answerable])
        if self._no_answer:
            result["best_threshold"] = _best_threshold(
                np.array(self._margins), with_answer, without
            )
        return result


def compare(answer: str, right: Sequence[str]) -> tuple[float, ...]:
    """Return the exact match and the F1 of one answer; an empty one is right if there is none."""
    from torchmetrics.functional.text import squad

    scores = squad(
        [{"id": "", "prediction_text": answer}],
        [{"id": "", "answers": {"text": list(right) or [""]}}],
    )
    return tuple(float(scores[key]) / 100 for key in KEYS)


def _means(scores: NDArray[np.float64]) -> dict[str, float]:
    means = scores.mean(axis=0) if len(scores) else np.zeros(len(KEYS))
    # The library computes in single precision, so further digits are noise.
    return {"items": len(scores)} | dict(zip(KEYS, means.round(6).tolist(), strict=True))


def _best_threshold(
    margins: NDArray[np.float64], with_answer: NDArray[np.float64], without: NDArray[np.float64]
) -> dict[str, float]:
    """Try every margin as the threshold, and one below all of them.

    Shape:
        margins (N,); the scores with and without the answer (N, 2).
    """
    order = np.argsort(margins, kind="stable")
    ordered = margins[order]
    gains = (with_answer - without)[order].cumsum(axis=0)
    totals = without.sum(axis=0) + np.vstack([np.zeros(len(KEYS)), gains])  # (N + 1, 2)
    # Row k answers the first k questions, which is possible only if the next margin differs.
    possible = np.append(np.append(True, ordered[1:] != ordered[:-1]), True)
    best = int(np.where(possible, totals[:, KEYS.index("f1")], -1).argmax())
    threshold = ordered[best - 1] if best else ordered[0] - 1
    scores = _means((totals[best] / len(margins))[None])
    return {"threshold": float(threshold)} | {key: scores[key] for key in KEYS}
