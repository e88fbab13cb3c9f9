"""How well a pre-trained model tells the hidden or next tokens of sequences, and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from heedful.batches import Example, Fitted
from heedful.reading import Record
from heedful.tasks.answers.blanks import Filled


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """How well the hidden tokens of a sequence, and how its parts belong together, were told."""

    text: str
    """The sequence as a text, nothing hidden."""
    loss: float
    """Sum of the losses of its hidden tokens, in nats."""
    right: int
    hidden: int
    pair_right: bool | None
    """Whether it was right of its two parts; None for a sequence that is no pair."""
    tokens_total: int
    tokens_used: int

    @classmethod
    def of(cls, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Self:
        """Name a sequence's numbers: loss, tokens told right, tokens hidden; of a pair one more."""
        loss, right, count, *pair_right = numbers
        return cls(
            text=text,
            loss=loss,
            right=int(right),
            hidden=int(count),
            pair_right=bool(pair_right[0]) if pair_right else None,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        return {
            "loss": self.loss,
            "right": self.right,
            "hidden": self.hidden,
            "tokens_total": self.tokens_total,
            "tokens_used": self.tokens_used,
        }

    def plain(self) -> str:
        """Return the loss of a hidden token."""
        return f"{self.loss / max(self.hidden, 1):.6f}"


class SequenceScores:
    """Scores of sequences; see ``heedful.metrics.LanguageScores``.

    Args:
        pair_metric: what the share of pairs that were told right is called; None for no pairs.
    """

    def __init__(self, pair_metric: str | None = None) -> None:
        from heedful.metrics import LanguageScores  # its library is slow to import

        self._pairs = pair_metric is not None
        self._scores = LanguageScores(pair_metric)

    def update(
        self, answers: Sequence[Scored | Filled], records: Sequence[Example | Record]
    ) -> None:
        """Count sequences."""
        scored = [answer for answer in answers if isinstance(answer, Scored)]
        self._scores.update(
            torch.tensor([answer.loss for answer in scored]),
            torch.tensor([answer.right for answer in scored]),
            torch.tensor([answer.hidden for answer in scored]),
            torch.tensor([answer.pair_right for answer in scored]) if self._pairs else None,
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """How well each token of a sequence was told from those before it."""

    text: str
    """The sequence as a text."""
    loss: float
    """Sum of the losses of its tokens, in nats."""
    right: int
    told: int
    """How many there are; the first follows none."""
    tokens_total: int
    tokens_used: int

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        names = ("loss", "right", "told", "tokens_total", "tokens_used")
        return {name: getattr(self, name) for name in names}

    def plain(self) -> str:
        """Return the loss of a token."""
        return f"{self.loss / max(self.told, 1):.6f}"


class NextScores:
    """Scores of sequences; see ``heedful.metrics.NextTokenScores``."""

    def __init__(self) -> None:
        from heedful.metrics import NextTokenScores  # its library is slow to import

        self._scores = NextTokenScores()

    def update(self, answers: Sequence[Any], records: Sequence[Example | Record]) -> None:
        """Count sequences."""
        for answer, record in zip(answers, records, strict=True):
            if isinstance(answer, Followed) and isinstance(record, Example):
                following = record.ids[1:]
                if len(following) != answer.told:  # what begins a text is told by nothing
                    following = following[following != record.ids[0]]
                self._scores.update(answer.loss, answer.right, following)

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()
