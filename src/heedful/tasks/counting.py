"""Adapter from the accumulators of ``heedful.metrics`` to ``task.Scores``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Answer = TypeVar("Answer")
Truth = TypeVar("Truth")


class Counter(Protocol):
    """An accumulator of scores, such as ``heedful.metrics.ChoiceScores``."""

    def compute(self) -> dict[str, Any]:
        """Return the scores."""


AnyCounter = TypeVar("AnyCounter", bound=Counter)


@dataclass(frozen=True, slots=True)
class Counting(Generic[AnyCounter, Answer, Truth]):
    """Accumulates scores; see ``task.Scores``."""

    counter: AnyCounter
    count: Callable[[AnyCounter, Sequence[Answer], Sequence[Truth]], None]
    """Adds a batch of answers and labelled records to the counter."""

    def update(self, answers: Sequence[Answer], records: Sequence[Truth]) -> None:
        """Add a batch of answers."""
        self.count(self.counter, answers, records)

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self.counter.compute()
