"""Compare answers with the truth, for `heedful evaluate --predictions`, reports and comparisons.

`Task.item_scorer` defines the ground truth of an item, whether an answer is right, and the counts
from which the scores of all items are computed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from heedful.metrics.measures import Measure
from heedful.reading.frames import naming_rows

AnswerT = TypeVar("AnswerT", bound="HasLengths")
RecordT = TypeVar("RecordT")


class HasLengths(Protocol):
    """An answer with its token counts; see ``heedful.task.Answer``."""

    @property
    def tokens_total(self) -> int:
        """Number of tokens of the item."""

    @property
    def tokens_used(self) -> int:
        """Number of tokens of the item that the model read."""


class Lengths(NamedTuple):
    """Number of tokens of an item, and the number that the model read."""

    tokens_total: int
    tokens_used: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerError:
    """One error in an answer that consists of several parts."""

    kind: str
    """The type of error, such as ``missed``."""
    truth: str | None
    """The expected value, if any."""
    answer: str | None
    """The predicted value, if any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResult:
    """The answer to one item, compared with its ground truth."""

    where: str
    """File and line of the item; for data in memory, its row."""
    texts: Mapping[str, str | tuple[str, ...]]
    """The input texts of the model, by their user-visible names."""
    truth: Any
    """As JSON-serializable values."""
    answer: Any
    """In the same form as the ground truth."""
    correct: bool | None
    """None if answers are not right or wrong but only closer to or further from the truth."""
    score: float | None
    """Quality of the answer, higher is better; None if a single item has no meaningful score."""
    confidence: float | None
    """Confidence of the model from 0 to 1, if it reports one."""
    statistics: tuple[float, ...]
    """Numbers from which the scores over all items are computed; the same length for each item."""
    decisions: tuple[tuple[float, bool], ...] = ()
    """The probability of each decision, and whether the decision is right."""
    errors: tuple[AnswerError, ...] = ()
    """The individual errors, if the task can distinguish them."""
    explain_target: str | None = None
    """The part of a multi-part answer to explain, as a value for ``heedful explain --target``; None
    for the whole answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemScorer(Generic[AnswerT, RecordT]):
    """Scores the answers of a task item by item."""

    results: Callable[[Iterable[tuple[AnswerT, RecordT]]], Iterator[ItemResult]]
    """Takes answers and labelled records; yields the result of each item in order."""
    aggregate: Measure
    """How to compute the scores from the counts of all items; keys as in the task's scores."""
    score_name: str | None = None
    """Name of `ItemResult.score`, if it is more than whether the answer is right."""
    text_metrics: Mapping[str, Any] = field(default_factory=dict)
    """sacreBLEU metrics for answers that are texts."""
    labels: tuple[str, ...] = ()
    """The classes of the run; runs with different classes cannot be compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredItem(Generic[RecordT]):
    """An item of the data, with the result of its answer."""

    index: int
    """Index in the data, from 0."""
    record: RecordT
    result: ItemResult
    lengths: Lengths


AnyItemScorer: TypeAlias = ItemScorer[Any, Any]
"""The scorer of any task."""


def each(
    result_of: Callable[[AnswerT, RecordT], ItemResult],
) -> Callable[[Iterable[tuple[AnswerT, RecordT]]], Iterator[ItemResult]]:
    """Return a function that scores each item independently."""
    return lambda pairs: (result_of(answer, record) for answer, record in pairs)


def score_items(
    scorer: ItemScorer[AnswerT, RecordT], answered: Iterable[tuple[AnswerT, RecordT]]
) -> Iterator[ScoredItem[RecordT]]:
    """Score answers, and yield each result with its record and lengths."""
    pending: deque[tuple[Lengths, RecordT]] = deque()

    def answered_pairs() -> Iterator[tuple[AnswerT, RecordT]]:
        for answer, record in answered:
            pending.append((Lengths(answer.tokens_total, answer.tokens_used), record))
            yield answer, record

    for number, result in enumerate(scorer.results(answered_pairs())):
        lengths, record = pending.popleft()
        result = replace(result, where=naming_rows(result.where))
        yield ScoredItem(index=number, record=record, result=result, lengths=lengths)


def prediction_row(scorer: AnyItemScorer, item: ScoredItem[Any]) -> dict[str, Any]:
    """Return an item as a row of the predictions file; all rows of a task have the same keys."""
    result, lengths = item.result, item.lengths
    row: dict[str, Any] = {"where": result.where, **result.texts}
    row |= {"truth": result.truth, "answer": result.answer}
    if scorer.score_name is not None:
        row[scorer.score_name] = _rounded(result.score)
    row |= {"right": result.correct, "confidence": _rounded(result.confidence)}
    return row | lengths._asdict()


def six_digits(value: float) -> float:
    """Round a number to six decimals, or one below 1 to six significant digits."""
    return float(f"{value:.6g}") if abs(value) < 1 else round(value, 6)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
