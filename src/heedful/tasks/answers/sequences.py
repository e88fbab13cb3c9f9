"""Scores of pre-training sequences: how well masked or next tokens are predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch

from heedful import metrics
from heedful.batches import Example, Fitted
from heedful.reading import Record
from heedful.task import Scores
from heedful.tasks.answers.filled_masks import Filled
from heedful.tasks.counting import Counting


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedCounts:
    """Counts of the predictions of masked tokens, and of how the segments are related."""

    text: str
    """The sequence as text, without masks."""
    loss: float
    """Summed loss of its masked tokens, in nats."""
    correct: int
    masked: int
    pair_correct: bool | None
    """Whether the predicted relation of its segments is correct; None if it is not predicted."""
    tokens_total: int
    tokens_used: int

    @classmethod
    def of(cls, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Self:
        """Unpack loss, correct tokens, masked tokens, and for pairs the correctness of the pair."""
        loss, correct, count, *pair_correct = numbers
        return cls(
            text=text,
            loss=loss,
            correct=int(correct),
            masked=int(count),
            pair_correct=bool(pair_correct[0]) if pair_correct else None,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        names = ("loss", "correct", "masked", "tokens_total", "tokens_used")
        return {name: getattr(self, name) for name in names}

    def plain(self) -> str:
        """Return the mean loss of a masked token."""
        return f"{self.loss / max(self.masked, 1):.6f}"


def sequence_scores(
    pair_metric: str | None = None,
) -> Scores[MaskedCounts | Filled, Example | Record]:
    """Return a new, empty accumulator of scores of sequences.

    Args:
        pair_metric: name of the accuracy on pairs; None for no pairs.
    """
    count = partial(_count_masked, pairs=pair_metric is not None)
    return Counting(metrics.LanguageScores(pair_metric), count)


def _count_masked(
    scores: "metrics.LanguageScores",
    answers: Sequence[MaskedCounts | Filled],
    records: Sequence[Example | Record],
    *,
    pairs: bool,
) -> None:
    scored = [answer for answer in answers if isinstance(answer, MaskedCounts)]
    scores.update(
        torch.tensor([answer.loss for answer in scored]),
        torch.tensor([answer.correct for answer in scored]),
        torch.tensor([answer.masked for answer in scored]),
        torch.tensor([answer.pair_correct for answer in scored]) if pairs else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NextTokenCounts:
    """Counts of the predictions of each token of a sequence from the tokens before it."""

    text: str
    """The sequence as text."""
    loss: float
    """Summed loss of its tokens, in nats."""
    correct: int
    predicted: int
    """Number of predicted tokens: all but the first."""
    tokens_total: int
    tokens_used: int

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        names = ("loss", "correct", "predicted", "tokens_total", "tokens_used")
        return {name: getattr(self, name) for name in names}

    def plain(self) -> str:
        """Return the mean loss of a token."""
        return f"{self.loss / max(self.predicted, 1):.6f}"


def next_token_scores() -> Scores[Any, Example | Record]:
    """Return a new, empty accumulator of scores of next-token prediction."""
    return Counting(metrics.NextTokenScores(), _count_next)


def _count_next(
    scores: "metrics.NextTokenScores", answers: Sequence[Any], records: Sequence[Example | Record]
) -> None:
    for answer, record in zip(answers, records, strict=True):
        if isinstance(answer, NextTokenCounts) and isinstance(record, Example):
            next_ids = record.ids[1:]
            if len(next_ids) != answer.predicted:  # start tokens of later texts do not count
                next_ids = next_ids[next_ids != record.ids[0]]
            scores.update(answer.loss, answer.correct, next_ids)
