"""Record of a run's answers to labelled data: statistics of all items, and a few whole items."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.item_results import AnswerError, AnyItemScorer, ItemResult, ScoredItem, score_items
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
        scorer: the task's scorer.
    """

    def __init__(self, scorer: AnyItemScorer) -> None:
        self.scorer = scorer
        self.items = self.num_correct = self.num_decided = 0
        self.error_types: Counter[str] = Counter()
        self.error_examples: dict[str, list[tuple[AnswerError, ItemResult]]] = {}
        self.first: list[ScoredItem[Any]] = []
        self._counts, self._lengths = array("d"), array("q")
        self._decisions, self._pairs = array("d"), array("d")
        self._width = 0
        self._confident_errors, self._unsure, self._worst = (
            TopK[ScoredItem[Any]](SHOWN) for _ in range(3)
        )

    def update(self, answered: Iterable[tuple[Any, Any]]) -> None:
        """Add all pairs of a record and its answer."""
        for item in score_items(self.scorer, answered):
            self._add(item)

    def _add(self, item: ScoredItem[Any]) -> None:
        result, number = item.result, item.index
        self.items += 1
        self._lengths.extend(item.lengths)
        self._width = len(result.statistics)
        self._counts.extend(result.statistics)
        for confidence, correct in result.decisions:
            self._decisions.extend((confidence, correct))
        if isinstance(result.truth, float) and isinstance(result.answer, float):
            self._pairs.extend((result.truth, result.answer))
        if len(self.first) < SHOWN:
            self.first.append(item)
        if result.correct is not None:
            self.num_decided += 1
            self.num_correct += result.correct
        if result.confidence is not None:
            self._unsure.add(-result.confidence, number, item)
            if result.correct is False:
                self._confident_errors.add(result.confidence, number, item)
        if result.score is not None and result.correct is not True:
            self._worst.add(-result.score, number, item)
        for error in result.errors:
            self.error_types[error.kind] += 1
            examples = self.error_examples.setdefault(error.kind, [])
            if len(examples) < SHOWN:
                examples.append((error, result))

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
    def surest_errors(self) -> list[ScoredItem[Any]]:
        """Wrong answers with the highest confidence, highest first."""
        return self._confident_errors.sorted()

    @property
    def least_sure(self) -> list[ScoredItem[Any]]:
        """Answers with the lowest confidence, lowest first."""
        return self._unsure.sorted()

    @property
    def worst(self) -> list[ScoredItem[Any]]:
        """Answers furthest from their targets, furthest first."""
        return self._worst.sorted()

    @property
    def worth_explaining(self) -> list[ScoredItem[Any]]:
        """A few short items with confident errors, uncertain answers, or large deviations."""
        doubtful = [self.surest_errors, self.least_sure]
        lists = doubtful if any(doubtful) else [self.worst] if len(self._pairs) else []
        short = [[item for item in items if _is_short(item)] for items in lists]
        return list({one.index: one for items in short for one in items[:EXPLAINED]}.values())


def _is_short(item: ScoredItem[Any]) -> bool:
    characters = sum(
        len(text if isinstance(text, str) else "".join(text)) for text in item.result.texts.values()
    )
    tokens = item.lengths.tokens_used
    return tokens <= LONGEST_EXPLAINED and characters <= 8 * LONGEST_EXPLAINED
