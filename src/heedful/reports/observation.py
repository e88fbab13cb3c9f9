"""What is kept of a run's answers to labelled data: numbers of all items, and few items whole."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.judging import AnyJudge, Fault, Judged, Judgement, judge_all
from heedful.metrics.measures import Numbers
from heedful.reports.highest import Highest

SHOWN = 20
"""Items of a list."""
EXPLAINED = 4
"""Items of a list that are explained; that takes about as long as a hundred answers each."""
LONGEST_EXPLAINED = 256
"""Most tokens of an item that is explained, each of at most 8 characters on average."""


class Observation:
    """Answers beside their truth, as they pass by.

    Its memory grows by some numbers an item; of the items themselves it keeps a few.

    Args:
        judge: the task's.
    """

    def __init__(self, judge: AnyJudge) -> None:
        self.judge = judge
        self.items = self.right = self.judged_right_or_wrong = 0
        self.faults: Counter[str] = Counter()
        self.fault_examples: dict[str, list[tuple[Fault, Judgement]]] = {}
        self.first: list[Judged[Any]] = []
        self._counts, self._lengths = array("d"), array("q")
        self._decisions, self._pairs = array("d"), array("d")
        self._width = 0
        self._sure_errors, self._unsure, self._worst = (
            Highest[Judged[Any]](SHOWN) for _ in range(3)
        )

    def watch(self, answered: Iterable[tuple[Any, Any]]) -> None:
        """Take in all answers with their records."""
        for judged in judge_all(self.judge, answered):
            self._add(judged)

    def _add(self, judged: Judged[Any]) -> None:
        judgement, number = judged.judgement, judged.number
        self.items += 1
        self._lengths.extend(judged.lengths)
        self._width = len(judgement.counts)
        self._counts.extend(judgement.counts)
        for confidence, right in judgement.decisions:
            self._decisions.extend((confidence, right))
        if isinstance(judgement.truth, float) and isinstance(judgement.answer, float):
            self._pairs.extend((judgement.truth, judgement.answer))
        if len(self.first) < SHOWN:
            self.first.append(judged)
        if judgement.right is not None:
            self.judged_right_or_wrong += 1
            self.right += judgement.right
        if judgement.confidence is not None:
            self._unsure.add(-judgement.confidence, number, judged)
            if judgement.right is False:
                self._sure_errors.add(judgement.confidence, number, judged)
        if judgement.worth is not None and judgement.right is not True:
            self._worst.add(-judgement.worth, number, judged)
        for fault in judgement.faults:
            self.faults[fault.kind] += 1
            examples = self.fault_examples.setdefault(fault.kind, [])
            if len(examples) < SHOWN:
                examples.append((fault, judgement))

    @property
    def columns(self) -> Numbers:
        """The numbers from which the scores follow. Shape (N, K)."""
        return np.asarray(self._counts).reshape(self.items, self._width)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each item, and how many of them were read. Shape (N, 2)."""
        return np.asarray(self._lengths, dtype=np.int64).reshape(self.items, 2)

    @property
    def decisions(self) -> Numbers:
        """The probability of each decision, and 1 if it is right. Shape (decisions, 2)."""
        return np.asarray(self._decisions).reshape(-1, 2)

    @property
    def pairs(self) -> Numbers:
        """The truth and the answer, where both are numbers. Shape (pairs, 2)."""
        return np.asarray(self._pairs).reshape(-1, 2)

    @property
    def surest_errors(self) -> list[Judged[Any]]:
        """Wrong answers that the model was sure of, the surest first."""
        return self._sure_errors.sorted()

    @property
    def least_sure(self) -> list[Judged[Any]]:
        """Answers that the model was not sure of, the least sure first."""
        return self._unsure.sorted()

    @property
    def worst(self) -> list[Judged[Any]]:
        """Answers that are furthest from the truth, the furthest first."""
        return self._worst.sorted()

    @property
    def worth_explaining(self) -> list[Judged[Any]]:
        """A few items of which a reader asks why they were answered so, none of them long."""
        doubtful = [self.surest_errors, self.least_sure]
        lists = doubtful if any(doubtful) else [self.worst] if len(self._pairs) else []
        short = [[judged for judged in items if _is_short(judged)] for items in lists]
        return list({one.number: one for items in short for one in items[:EXPLAINED]}.values())


def _is_short(judged: Judged[Any]) -> bool:
    characters = sum(
        len(text if isinstance(text, str) else "".join(text))
        for text in judged.judgement.texts.values()
    )
    tokens = judged.lengths.tokens_used
    return tokens <= LONGEST_EXPLAINED and characters <= 8 * LONGEST_EXPLAINED
