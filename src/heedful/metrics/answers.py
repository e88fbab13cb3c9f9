"""Question-answering scores: exact match and F1 over words (by torchmetrics) or characters.

Text without spaces between words is scored as in CMRC 2018 (Cui et al. 2019, "A Span-Extraction
Dataset for Chinese Machine Reading Comprehension", and its evaluation script).

A question may have no answer (SQuAD 2.0, Rajpurkar et al. 2018). The margin is the score of "no
answer" minus the score of the best answer. A model gives no answer if the margin is above a
threshold.
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
    """Collects answers and scores them. Memory grows with the number of questions.

    Args:
        no_answer: whether the model may give no answer, decided by a threshold.
    """

    def __init__(self, no_answer: bool = False) -> None:
        self.no_answer = no_answer
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
        references: Sequence[str],
        *,
        answered: bool,
        margin: float,
        unspaced: bool = False,
    ) -> None:
        """Add one question.

        Args:
            best: the model's best answer, even if the model gave no answer.
            references: all correct answers; empty if the question has no answer.
            answered: whether the model gave its best answer.
            margin: score of "no answer" minus the score of the best answer.
            unspaced: whether the text has no spaces between words. If so, characters are compared.
        """
        self._answerable.append(bool(references))
        self._answered.append(answered)
        self._margins.append(margin)
        options = {"unspaced": unspaced, "no_answer": self.no_answer}
        answer = best if answered else ""
        scores = compare(answer, references, **options)
        # Only the search for the best threshold needs the scores of both decisions.
        both = [best, ""] if self.no_answer else [answer, answer]
        with_answer, without_answer = (
            scores if other == answer else compare(other, references, **options) for other in both
        )
        self._with_answer.append(with_answer)
        self._without_answer.append(without_answer)
        self._unspaced += unspaced
        by_words = compare(answer, references, no_answer=self.no_answer) if unspaced else scores
        self._by_words.append(by_words)

    def compute(self) -> dict[str, Any]:
        """Return the scores of all questions added so far, ready for JSON.

        ``exact_match`` and ``f1`` are means of the official SQuAD scores, from 0 to 1. Case,
        punctuation and articles are ignored. Exact match compares whole answers; F1 compares bags
        of words. Each answer is compared with the closest correct answer. ``items`` is the number
        of questions.

        If some questions have no answer, ``answerable`` and ``unanswerable`` hold the same three
        values for the two kinds of question. If the model may give no answer, ``best_threshold``
        holds the threshold with the highest ``f1`` on these questions, and its scores.

        Raises:
            UserError: no question was added.
        """
        if not self._answered:
            raise UserError("no questions to score: the data is empty")
        answerable, answered = np.array(self._answerable), np.array(self._answered)
        with_answer, without_answer = (
            np.array(self._with_answer),
            np.array(self._without_answer),
        )  # (N, 2)
        scores = np.where(answered[:, None], with_answer, without_answer)
        result: dict[str, Any] = _means(scores)
        if self._unspaced:
            result["compared_by"] = self._compared_by()
            result["squad"] = _means(np.array(self._by_words))
        if not answerable.all():
            result["answerable"] = _means(scores[answerable])
            result["unanswerable"] = _means(scores[~answerable])
        if self.no_answer:
            result["best_threshold"] = _best_threshold(
                np.array(self._margins), with_answer, without_answer
            )
        return result

    def _compared_by(self) -> str:
        words = len(self._answered) - self._unspaced
        others = f"; words (SQuAD) in {words:,} of {len(self._answered):,}" if words else ""
        return f"characters (CMRC 2018){others}"


def compare(
    answer: str, references: Sequence[str], *, unspaced: bool = False, no_answer: bool = False
) -> tuple[float, ...]:
    """Return the exact match and F1 of one answer.

    An empty answer is correct if there is no correct answer.

    Args:
        answer: the predicted answer.
        references: the correct answers. Each score is the maximum over them.
        unspaced: whether to compare characters instead of words.
        no_answer: whether the model may give no answer. If so, correct answers made only of
            articles and punctuation are dropped, as in the SQuAD 2.0 script.
    """
    if unspaced:
        scores_of = [_by_characters(answer, one) for one in references or [""]]
        return tuple(map(max, zip(*scores_of, strict=True)))
    from torchmetrics.functional.text import squad

    if no_answer:
        references = [one for one in references if _has_words(one)]
    scores = squad(
        [{"id": "", "prediction_text": answer}],
        [{"id": "", "answers": {"text": list(references) or [""]}}],
    )
    return tuple(float(scores[key]) / 100 for key in KEYS)


def _has_words(text: str) -> bool:
    """Return whether an answer has a word left after removing articles and punctuation."""
    words = "".join(one for one in text.lower() if one not in string.punctuation)
    return bool(_ARTICLE.sub(" ", words).strip())


_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
"""The punctuation that the CMRC script removes."""
_UNITS = re.compile(rf"[{HAN}{KANA}]")


def _by_characters(answer: str, reference: str) -> tuple[float, float]:
    """Return the exact match and F1 of two answers, ignoring punctuation and case.

    F1 is computed from the longest common substring, measured in units.
    """
    first, second = (
        "".join(one for one in text.lower().strip() if one not in _PUNCTUATION)
        for text in (answer, reference)
    )
    units = [_mixed_units(text) for text in (first, second)]
    if not all(units):
        return float(first == second), float(first == second)
    blocks = SequenceMatcher(None, units[0], units[1], autojunk=False)
    overlap = blocks.find_longest_match().size
    return float(first == second), 2 * overlap / sum(map(len, units))


def _mixed_units(text: str) -> list[str]:
    """Split a text into single ideographs and kana, and the words and punctuation between them."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a
    tokenized: str = tokenizer()(_UNITS.sub(r" \g<0> ", text))
    return tokenized.split()


def _means(scores: NDArray[np.float64]) -> dict[str, float]:
    means = scores.mean(axis=0) if len(scores) else np.zeros(len(KEYS))
    # torchmetrics computes in single precision, so further digits are noise.
    return {"items": len(scores)} | dict(zip(KEYS, means.round(6).tolist(), strict=True))


def _best_threshold(
    margins: NDArray[np.float64],
    with_answer: NDArray[np.float64],
    without_answer: NDArray[np.float64],
) -> dict[str, float]:
    """Return the threshold with the highest F1, and its scores.

    Tries every margin as the threshold, and one value below all of them.

    Shape:
        margins (N,); the scores with and without the answer (N, 2).
    """
    order = np.argsort(margins, kind="stable")
    ordered = margins[order]
    gains = (with_answer - without_answer)[order].cumsum(axis=0)
    totals = without_answer.sum(axis=0) + np.vstack([np.zeros(len(KEYS)), gains])  # (N + 1, 2)
    # Row k answers the first k questions. This is possible only if the next margin differs.
    is_valid = np.append(np.append(True, ordered[1:] != ordered[:-1]), True)
    best = int(np.where(is_valid, totals[:, KEYS.index("f1")], -1).argmax())
    threshold = ordered[best - 1] if best else ordered[0] - 1
    scores = _means((totals[best] / len(margins))[None])
    return {"threshold": float(threshold)} | {key: scores[key] for key in KEYS}
