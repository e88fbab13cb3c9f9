"""Comparison of two runs on the same items: score differences and their significance."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError, check_known, join_names
from heedful.item_results import AnyItemScorer, ItemResult, six_digits
from heedful.metrics.generation import bleu_tokenizer_signature, paired_tests
from heedful.metrics.measures import LOWER_IS_BETTER, Statistics
from heedful.metrics.resampling import differences, mcnemar, point_estimates
from heedful.metrics.texts import difference_text, score_text
from heedful.reports.top_k import TopK
from heedful.task import AnyTask

SIGNIFICANT = 0.05
SHOWN = 10
"""Number of improved items that are shown, and of worsened items."""
LONGEST_TEXT = 300
"""Maximum number of characters of a text that are shown."""

_ACCURACY_SCORES = ("accuracy", "exact_match", "recall_at_1")
"""Scores that are the fraction of correct items."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One score of both runs, with the result of a significance test."""

    first: float
    second: float
    difference: float
    low: float
    """Lower end of the 95 % confidence interval of the difference."""
    high: float
    p_value: float
    test: str
    """Name of the test that gave the p value."""
    p_values: Mapping[str, float]
    """The p values of all tests, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """An item whose answer became better or worse."""

    where: str
    texts: Mapping[str, str]
    truth: Any
    first: Any
    second: Any
    change: float
    """Quality of the second answer minus the quality of the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Result of a comparison."""

    task: str
    first: str
    second: str
    items: int
    items_that_differ: int
    metric: str
    """The score that the conclusion is based on."""
    scores: Mapping[str, Verdict]
    conclusion: str
    lost: Sequence[Changed]
    """Items for which the second run's answer is worse, largest change first."""
    gained: Sequence[Changed]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dict, ready for JSON."""
        return asdict(self)


def check_comparable(names: tuple[str, str], tasks: tuple[AnyTask, AnyTask]) -> None:
    """Check that two runs can be compared.

    Raises:
        UserError: the runs have different tasks, labels or scores, or BLEU splits their texts
            into words differently.
    """
    if tasks[0].name != tasks[1].name:
        raise UserError(
            f"{names[0]} is a run of {tasks[0].name} and {names[1]} one of {tasks[1].name}: "
            "only runs of one task can be compared"
        )
    scorers = [task.item_scorer() for task in tasks]
    labels = [set(scorer.labels) for scorer in scorers]
    for name, only in ((names[0], labels[0] - labels[1]), (names[1], labels[1] - labels[0])):
        if only:
            raise UserError(
                f"only {name} knows {join_names(sorted(only))}: only runs with the same labels can "
                "be compared"
            )
    # The scores of embeddings depend only on the evaluation data, not on the training data.
    if "embed" not in tasks[0].abilities and tasks[0].metrics() != tasks[1].metrics():
        scores = [", ".join(task.metrics()) for task in tasks]
        raise UserError(
            f"{names[0]} is scored by {scores[0]} and {names[1]} by {scores[1]}: only runs with "
            f"the same scores can be compared. {names[0]}: {tasks[0].model_card()} {names[1]}: "
            f"{tasks[1].model_card()}"
        )
    cuts = [bleu_tokenizer_signature(scorer.text_metrics) for scorer in scorers]
    if cuts[0] != cuts[1]:
        raise UserError(
            f"BLEU splits the texts of {names[0]} by {cuts[0]} and those of {names[1]} by {cuts[1]}"
            ": choose one for both by --bleu-tokenize"
        )


class PairedResults:
    """Collects the answers of two runs to the same items from a stream.

    Memory grows by a few numbers per item, and by the generated texts.

    Args:
        scorers: the task's scorer of each run.
        metric: the score to base the conclusion on, if given.
        default_metric: default of ``metric``. If the data lacks this score, the first score is
            used.
    """

    def __init__(
        self,
        scorers: tuple[AnyItemScorer, AnyItemScorer],
        metric: str | None = None,
        *,
        default_metric: str | None = None,
    ) -> None:
        self.scorers = scorers
        self.metric = metric
        self.default_metric = default_metric
        self.items = self.items_that_differ = 0
        self._counts = (array("d"), array("d"))
        self._correct = (array("b"), array("b"))
        self._texts: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._lost, self._gained = TopK[Changed](SHOWN), TopK[Changed](SHOWN)

    def update(self, pairs: Iterable[tuple[ItemResult, ItemResult]]) -> None:
        """Add the answers of both runs to each item.

        Raises:
            UserError: the runs did not read the same text, or the data does not have the score
                ``metric``, which is checked after the first pair.
        """
        for first, second in pairs:
            self._add(first, second)
            if self.metric is not None and self.items == 1:
                known = point_estimates(self.scorers[0].aggregate, self.columns[0])
                check_known("metric", self.metric, known)

    def _add(self, first: ItemResult, second: ItemResult) -> None:
        if first.texts != second.texts:
            raise UserError(
                f"item {self.items + 1} of the two runs is not the same text: they cut the data "
                "differently, by another vocabulary or --max-length, and cannot be compared"
            )
        number, self.items = self.items, self.items + 1
        for result, counts, correct in zip(
            (first, second), self._counts, self._correct, strict=True
        ):
            counts.extend(result.statistics)
            if result.correct is not None:
                correct.append(result.correct)
        if self.scorers[0].text_metrics:
            for texts, text in zip(
                self._texts, (first.answer, second.answer, first.truth), strict=True
            ):
                texts.append(text or "")
        differ = first.answer != second.answer
        if first.answer is None and second.answer is None:  # only the counts can differ
            differ = first.statistics != second.statistics
        self.items_that_differ += differ
        if first.score is not None and second.score is not None and first.score != second.score:
            change = second.score - first.score
            changed = _changed(first, second, change)
            (self._gained if change > 0 else self._lost).add(abs(change), number, changed)

    @property
    def columns(self) -> list[Statistics]:
        """Item statistics of each run, from which its scores are computed. Shapes (N, K)."""
        return [np.asarray(counts).reshape(self.items, -1) for counts in self._counts]

    @property
    def correct(self) -> list[NDArray[np.bool_]] | None:
        """Which items each run has correct, or None if this is not defined. Shapes (N,)."""
        both = [np.asarray(correct).astype(bool) for correct in self._correct]
        return both if all(len(correct) == self.items for correct in both) else None

    def compare(self, names: tuple[str, str], task: str, *, seed: int) -> Comparison:
        """Test the difference of each score.

        Args:
            names: names of the two runs.
            task: name of their task.
            seed: the seed of the resampling.

        Raises:
            UserError: there are fewer than two items.
        """
        if self.items < 2:
            raise UserError(f"{self.items} items: at least two are needed to compare runs")
        scores = self._test_scores(seed)
        if not scores:
            raise UserError(f"{' and '.join(names)} have no score in common on this data")
        if self.metric is not None:
            check_known("metric", self.metric, scores)
        metric = self.metric or (
            self.default_metric if self.default_metric in scores else next(iter(scores))
        )
        return Comparison(
            task=task,
            first=names[0],
            second=names[1],
            items=self.items,
            items_that_differ=self.items_that_differ,
            metric=metric,
            scores=scores,
            conclusion=conclude(names, metric, scores[metric], self.items),
            lost=self._lost.sorted(),
            gained=self._gained.sorted(),
        )

    def _test_scores(self, seed: int) -> dict[str, Verdict]:
        measures = [scorer.aggregate for scorer in self.scorers]
        *systems, references = self._texts
        by_text = (
            paired_tests(self.scorers[0].text_metrics, systems, references, seed=seed)
            if systems[0] != systems[1]
            else {}
        )
        result = {}
        for name, change in differences(measures, self.columns, seed=seed).items():
            p_values = {"paired bootstrap": change.p_value, **by_text.get(name, {})}
            # sacreBLEU's tests do not count ties, so their p values are far too low if few texts
            # differ: take the highest.
            test = max(p_values, key=p_values.__getitem__)
            if name in _ACCURACY_SCORES and self.correct is not None:
                test = "exact McNemar"
                p_values[test] = mcnemar(*self.correct)
            result[name] = Verdict(
                first=change.first,
                second=change.second,
                difference=change.difference,
                low=change.low,
                high=change.high,
                p_value=p_values[test],
                test=test,
                p_values=p_values,
            )
        return result


def conclude(names: tuple[str, str], metric: str, tested: Verdict, items: int) -> str:
    """Return the conclusion in one or two sentences."""
    first, second = tested.first, tested.second
    difference, low, high = (
        difference_text(value, first, second)
        for value in (tested.difference, tested.low, tested.high)
    )
    details = (
        f"{metric} {score_text(second)} instead of {score_text(first)}, a difference of "
        f"{difference} (95 % interval {low} to {high}, p = {tested.p_value:.2g}, {tested.test})"
    )
    if tested.p_value < SIGNIFICANT:
        better = (tested.difference < 0) == (metric in LOWER_IS_BETTER)
        return (
            f"{names[1]} is {'better' if better else 'worse'} than {names[0]}, by more than chance "
            f"explains: {details}."
        )
    margin = max(tested.high - tested.difference, tested.difference - tested.low)
    if not margin:  # for example if no answer differs
        return (
            f"No difference can be detected between {names[0]} and {names[1]}: {metric} is "
            f"{score_text(first)} for both."
        )
    return (
        f"No difference can be detected between {names[0]} and {names[1]}: {details}. On {items:,} "
        f"items like these, a difference below about {margin:.2g} cannot be distinguished "
        "from chance."
    )


def _changed(first: ItemResult, second: ItemResult, change: float) -> Changed:
    return Changed(
        where=first.where,
        texts={
            name: _truncate(text if isinstance(text, str) else " | ".join(text))
            for name, text in first.texts.items()
        },
        truth=first.truth,
        first=first.answer,
        second=second.answer,
        change=six_digits(change),
    )


def _truncate(text: str) -> str:
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} … {text[-half:]}"
