"""Record of a run's answers to labelled data: statistics of all items, and a few whole items."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.judging import AnswerError, AnyJudge, Judged, Judgement, judge_all
from heedful.metrics.measures import Statistics
from heedful.reports.top_k import TopK

SHOWN = 20
"""Maximum number of items in a list."""
EXPLAINED = 4
"""Number of explained items per list. Each explanation takes as long as about a hundred answers."""
LONGEST_EXPLAINED = 256
"""Maximum number of tokens of an explained item, of at most 8 characters each on average."""


class Observation:
    """Collects answers and their targets from a stream.

    Memory grows by a few numbers per item. Only a few whole items are kept.

    Args:
        judge: the task's judge.
    """

    def __init__(self, judge: AnyJudge) -> None:
        self.judge = judge
        self.items = self.right = self.judged_right_or_wrong = 0
        self.faults: Counter[str] = Counter()
        self.fault_examples: dict[str, list[tuple[AnswerError, Judgement]]] = {}
        self.first: list[Judged[Any]] = []
        self._counts, self._lengths = array("d"), array("q")
        self._decisions, self._pairs = array("d"), array("d")
        self._width = 0
        self._confident_errors, self._unsure, self._worst = (
            TopK[Judged[Any]](SHOWN) for _ in range(3)
        )

    def update(self, answered: Iterable[tuple[Any, Any]]) -> None:
        """Add all pairs of a record and its answer."""
        for judged in judge_all(self.judge, answered):
            self._add(judged)

    def _add(self, judged: Judged[Any]) -> None:
        judgement, number = judged.judgement, judged.index
        self.items += 1
        self._lengths.extend(judged.lengths)
        self._width = len(judgement.statistics)
        self._counts.extend(judgement.statistics)
        for confidence, right in judgement.decisions:
            self._decisions.extend((confidence, right))
        if isinstance(judgement.truth, float) and isinstance(judgement.answer, float):
            self._pairs.extend((judgement.truth, judgement.answer))
        if len(self.first) < SHOWN:
            self.first.append(judged)
        if judgement.correct is not None:
            self.judged_right_or_wrong += 1
            self.right += judgement.correct
        if judgement.confidence is not None:
            self._unsure.add(-judgement.confidence, number, judged)
            if judgement.correct is False:
                self._confident_errors.add(judgement.confidence, number, judged)
        if judgement.score is not None and judgement.correct is not True:
            self._worst.add(-judgement.score, number, judged)
        for fault in judgement.errors:
            self.faults[fault.kind] += 1
            examples = self.fault_examples.setdefault(fault.kind, [])
            if len(examples) < SHOWN:
                examples.append((fault, judgement))

    @property
    def columns(self) -> Statistics:
        """Item statistics, from which the scores are computed. Shape (N, K)."""
        return np.asarray(self._counts).reshape(self.items, self._width)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each item, and of tokens read. Shape (N, 2)."""
        return np.asarray(self._lengths, dtype=np.int64).reshape(self.items, 2)

    @property
    def decisions(self) -> Statistics:
        """Probability of each decision, and 1 if it is correct, else 0. Shape (decisions, 2)."""
        return np.asarray(self._decisions).reshape(-1, 2)

    @property
    def pairs(self) -> Statistics:
        """Target and answer of the items where both are numbers. Shape (pairs, 2)."""
        return np.asarray(self._pairs).reshape(-1, 2)

    @property
    def surest_errors(self) -> list[Judged[Any]]:
        """Wrong answers with the highest confidence, highest first."""
        return self._confident_errors.sorted()

    @property
    def least_sure(self) -> list[Judged[Any]]:
        """Answers with the lowest confidence, lowest first."""
        return self._unsure.sorted()

    @property
    def worst(self) -> list[Judged[Any]]:
        """Answers furthest from their targets, furthest first."""
        return self._worst.sorted()

    @property
    def worth_explaining(self) -> list[Judged[Any]]:
        """A few short items with confident errors, uncertain answers, or large deviations."""
        doubtful = [self.surest_errors, self.least_sure]
        lists = doubtful if any(doubtful) else [self.worst] if len(self._pairs) else []
        short = [[judged for judged in items if _is_short(judged)] for items in lists]
        return list({one.index: one for items in short for one in items[:EXPLAINED]}.values())


def _is_short(judged: Judged[Any]) -> bool:
    characters = sum(
        len(text if isinstance(text, str) else "".join(text))
        for text in judged.judgement.texts.values()
    )
    tokens = judged.lengths.tokens_used
    return tokens <= LONGEST_EXPLAINED and characters <= 8 * LONGEST_EXPLAINED
