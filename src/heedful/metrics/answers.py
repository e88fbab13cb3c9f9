"""Scores of answers to questions: torchmetrics compares words, this file characters, and counts.

Where there are no spaces between words, answers are compared as CMRC 2018 does (Cui et al. 2019, "A
Span-Extraction Dataset for Chinese Machine Reading Comprehension", and the program that scores it).

A question may have no answer (SQuAD 2.0, Rajpurkar et al. 2018). A model gives no answer if its
margin, by which "no answer" outscores its best answer, is above a threshold.
"""

import re
import string
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.scripts import HAN, KANA

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
        self._by_words: list[tuple[float, ...]] = []
        self._unspaced = 0

    def update(
        self,
        best: str,
        right: Sequence[str],
        *,
        answered: bool,
        margin: float,
        unspaced: bool = False,
    ) -> None:
        """Count one question.

        Args:
            best: the model's best answer, whether it gave it or not.
            right: all right answers; none if the question has no answer.
            answered: whether the model gave its best answer.
            margin: by how much "no answer" outscored it.
            unspaced: whether the text has no spaces between words, so that characters count.
        """
        self._answerable.append(bool(right))
        self._answered.append(answered)
        self._margins.append(margin)
        options = {"unspaced": unspaced, "no_answer": self._no_answer}
        self._with_answer.append(compare(best, right, **options))
        self._without_answer.append(compare("", right, **options))
        self._unspaced += unspaced
        answer = best if answered else ""
        self._by_words.append(compare(answer, right, no_answer=self._no_answer))

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
        if self._unspaced:
            result["compared_by"] = self._compared_by()
            result["squad"] = _means(np.array(self._by_words))
        if not answerable.all():
            result["answerable"] = _means(scores[answerable])
            result["unanswerable"] = _means(scores[~answerable])
        if self._no_answer:
            result["best_threshold"] = _best_threshold(
                np.array(self._margins), with_answer, without
            )
        return result

    def _compared_by(self) -> str:
        words = len(self._answered) - self._unspaced
        others = f"; words (SQuAD) in {words:,} of {len(self._answered):,}" if words else ""
        return f"characters (CMRC 2018){others}"


def compare(
    answer: str, right: Sequence[str], *, unspaced: bool = False, no_answer: bool = False
) -> tuple[float, ...]:
    """Return the exact match and the F1 of one answer; an empty one is right if there is none.

    Args:
        answer: the answer.
        right: the right ones; the nearest counts, for each score.
        unspaced: whether characters count rather than words.
        no_answer: whether the model may give no answer. As in the program of SQuAD 2.0 a right
            answer of nothing but articles and punctuation then counts for none.
    """
    if unspaced:
        scores_of = [_by_characters(answer, one) for one in right or [""]]
        return tuple(map(max, zip(*scores_of, strict=True)))
    from torchmetrics.functional.text import squad

    if no_answer:
        right = [one for one in right if _has_words(one)]
    scores = squad(
        [{"id": "", "prediction_text": answer}],
        [{"id": "", "answers": {"text": list(right) or [""]}}],
    )
    return tuple(float(scores[key]) / 100 for key in KEYS)


def _has_words(text: str) -> bool:
    """Tell whether anything of an answer is compared by words: articles and punctuation are not."""
    words = "".join(one for one in text.lower() if one not in string.punctuation)
    return bool(_ARTICLE.sub(" ", words).strip())


_ARTICLE = re.compile(r"\b(a|an|the)\b")
_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
"""The punctuation that CMRC's program leaves out."""
_UNITS = re.compile(rf"[{HAN}{KANA}]")


def _by_characters(answer: str, right: str) -> tuple[float, float]:
    """Compare two answers without their marks and capitals.

    F1 is that of the longest run of units that both have.
    """
    first, second = (
        "".join(one for one in text.lower().strip() if one not in _MARKS)
        for text in (answer, right)
    )
    units = [_mixed_units(text) for text in (first, second)]
    if not all(units):
        return float(first == second), float(first == second)
    blocks = SequenceMatcher(None, units[0], units[1], autojunk=False)
    same = blocks.find_longest_match().size
    return float(first == second), 2 * same / sum(map(len, units))


def _mixed_units(text: str) -> list[str]:
    """Split a text into ideographs and kana, and words and marks between them."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a
    apart: str = tokenizer()(_UNITS.sub(r" \g<0> ", text))
    return apart.split()


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
