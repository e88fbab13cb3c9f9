"""Scores of answers, by what ``heedful.metrics`` counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Answer = TypeVar("Answer")
Truth = TypeVar("Truth")


class Counter(Protocol):
    """What counts, such as ``heedful.metrics.ChoiceScores``."""

    def compute(self) -> dict[str, Any]:
        """Return the scores."""


AnyCounter = TypeVar("AnyCounter", bound=Counter)


@dataclass(frozen=True, slots=True)
class Counting(Generic[AnyCounter, Answer, Truth]):
    """Scores; see ``task.Scores``."""

    counter: AnyCounter
    count: Callable[[AnyCounter, Sequence[Answer], Sequence[Truth]], None]
    """Has the counter count a batch of answers to records that hold the truth."""

    def update(self, answers: Sequence[Answer], records: Sequence[Truth]) -> None:
        """Count a batch of answers."""
        self.count(self.counter, answers, records)

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self.counter.compute()
