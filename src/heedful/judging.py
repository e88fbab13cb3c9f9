"""Answers beside the truth: what `heedful evaluate --predictions`, reports and comparisons share.

A task says in its `judge` what its truth is, whether an answer is right, and from which numbers of
each item its scores follow.
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
    """An answer says how much the model was given; see ``heedful.task.Answer``."""

    @property
    def tokens_total(self) -> int:
        """Tokens of the item."""

    @property
    def tokens_used(self) -> int:
        """Tokens of it that the model was given."""


class Lengths(NamedTuple):
    """How many tokens an item has, and how many of them the model was given."""

    tokens_total: int
    tokens_used: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with an answer that consists of several."""

    kind: str
    """What kind of mistake it is, such as ``missed``."""
    truth: str | None
    """What would have been right, if anything."""
    answer: str | None
    """What was answered instead, if anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The answer to one item beside its truth."""

    where: str
    """File and line of the item; of data in memory its row."""
    texts: Mapping[str, str | tuple[str, ...]]
    """What the model read, by the names that users know."""
    truth: Any
    """Ready for JSON."""
    answer: Any
    """In the form of the truth."""
    right: bool | None
    """None where answers are only nearer to the truth or further from it."""
    worth: float | None
    """How good the answer is, more is better; None if one item alone does not tell."""
    confidence: float | None
    """How sure the model is, from 0 to 1, if it says."""
    counts: tuple[float, ...]
    """The numbers from which the scores of all items follow; as many for each item."""
    decisions: tuple[tuple[float, bool], ...] = ()
    """The probability of each thing that was decided, and whether it is right."""
    faults: tuple[Fault, ...] = ()
    """What is wrong, where that can be told apart."""
    doubtful: str | None = None
    """What to explain of an answer that consists of several, as ``heedful explain --target`` takes
    it; None for the answer as such."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge(Generic[AnswerT, RecordT]):
    """How a task's answers are judged."""

    judged: Callable[[Iterable[tuple[AnswerT, RecordT]]], Iterator[Judgement]]
    """Answers and records with the truth to judgements, in their order."""
    measure: Measure
    """How scores follow from the counts of all items, under the keys of the task's scores."""
    worth: str | None = None
    """What `Judgement.worth` is, where it says more than whether the answer is right."""
    text_metrics: Mapping[str, Any] = field(default_factory=dict)
    """Metrics of sacreBLEU by which answers that are texts are judged."""
    labels: tuple[str, ...] = ()
    """What the run tells apart; runs that tell other things apart cannot be compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged(Generic[RecordT]):
    """An item of some data, and what its answer is worth."""

    number: int
    """From 0, in the order of the data."""
    record: RecordT
    judgement: Judgement
    lengths: Lengths


AnyJudge: TypeAlias = Judge[Any, Any]
"""Some judge, where it does not matter whose."""


def each(
    judge: Callable[[AnswerT, RecordT], Judgement],
) -> Callable[[Iterable[tuple[AnswerT, RecordT]]], Iterator[Judgement]]:
    """Return what judges each item by itself."""
    return lambda pairs: (judge(answer, record) for answer, record in pairs)


def judge_all(
    judge: Judge[AnswerT, RecordT], answered: Iterable[tuple[AnswerT, RecordT]]
) -> Iterator[Judged[RecordT]]:
    """Judge answers, and say what they were given to."""
    waiting: deque[tuple[Lengths, RecordT]] = deque()

    def passing() -> Iterator[tuple[AnswerT, RecordT]]:
        for answer, record in answered:
            waiting.append((Lengths(answer.tokens_total, answer.tokens_used), record))
            yield answer, record

    for number, judgement in enumerate(judge.judged(passing())):
        lengths, record = waiting.popleft()
        judgement = replace(judgement, where=naming_rows(judgement.where))
        yield Judged(number=number, record=record, judgement=judgement, lengths=lengths)


def row_of(judge: AnyJudge, judged: Judged[Any]) -> dict[str, Any]:
    """Return an item as the file of predictions holds it: every row of a task has the same keys."""
    judgement, lengths = judged.judgement, judged.lengths
    row: dict[str, Any] = {"where": judgement.where, **judgement.texts}
    row |= {"truth": judgement.truth, "answer": judgement.answer}
    if judge.worth is not None:
        row[judge.worth] = _rounded(judgement.worth)
    row |= {"right": judgement.right, "confidence": _rounded(judgement.confidence)}
    return row | lengths._asdict()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
