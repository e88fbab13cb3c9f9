"""Regression: one number for a text or a pair, such as how alike two sentences are."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.errors import UserError, listed
from heedful.models import BertForSequenceClassification
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Record
from heedful.settings import ColumnSettings, DataSettings, PredictSettings, RegressSettings
from heedful.tasks.task import Fit, Forward, Task, encoder_options
from heedful.tasks.texts import encode_texts, from_texts, read
from heedful.tokens import Tokenizer

LARGEST = 1e15
"""Squares of larger numbers, added up, may be more than a float32 holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """The numbers that were learnt from."""

    mean: float
    """Their mean, which a fresh model answers at first."""
    lowest: float
    highest: float
    pairs: bool = False
    """Whether it reads pairs of texts; else single ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The answer for one text or pair."""

    value: float
    """The number."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given."""
    windows: int
    """Windows the text was read in; their numbers are averaged."""


def target(record: Record) -> float:
    """Return a record's number.

    Raises:
        UserError: there is none, or several, or it is too large, with file and line.
    """
    given = record.labels or ()
    try:
        (text,) = given
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:  # nor where it is no number
        shown = listed([repr(label) for label in given]) or "nothing"
        limit = "" if math.isnan(value) else f"; it may be up to {LARGEST:g}, above or below 0"
        raise UserError(
            f"{record.source}, line {record.line}: expected a number, found {shown}{limit}"
        )
    return value


def goal_of(records: Iterable[Record], columns: ColumnSettings, settings: RegressSettings) -> Goal:
    """Look at the training data's numbers.

    Raises:
        UserError: they are all the same, so there is nothing to learn, or several an item.
    """
    if columns.label_separator is not None:
        raise UserError("regress learns one number an item: leave out --label-separator")
    values = [target(record) for record in records]
    if min(values) == max(values):
        raise UserError(f"every number of the training data is {values[0]:g}: nothing to learn")
    mean = math.fsum(values) / len(values)
    return Goal(
        mean=mean,
        lowest=min(values),
        highest=max(values),
        pairs=columns.text_pair is not None,
    )


def check(record: Record, goal: Goal) -> None:
    """Raise the errors of :func:`target`."""
    target(record)


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return ("pearson", "spearman")


def encode(
    records: Iterable[Record], goal: Goal, tokenizer: Tokenizer, fit: Fit, labelled: bool
) -> Iterator[Fitted[Example]]:
    """Turn each record into one example, or several where a long text is read in windows."""
    labels = (lambda record: (target(record),)) if labelled else None
    return encode_texts(records, tokenizer, fit, pairs=goal.pairs, labels=labels)


def build(goal: Goal, data: DataSettings) -> Model:
    """Load an encoder with a fresh output, which starts at the mean of the training data."""
    model: BertForSequenceClassification = load_model(
        data.model,
        head="sequence",
        num_labels=1,
        problem_type="regression",
        fresh_head=True,
        **encoder_options(data),
    )
    nn.init.constant_(model.classifier.bias, goal.mean)
    return model


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples, with their numbers where there is something to learn."""
    return collate(
        examples, pad_id=tokenizer.pad_token_id, labels=None if draw is None else "value"
    )


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of squared errors and how many there are."""
    assert batch.labels is not None
    logits = forward(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits  # (B, 1)
    return losses.mse(logits[:, 0], batch.labels)


def count(batch: Batch, goal: Goal) -> float:
    """Return the number of items."""
    return float(batch.items)


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Return each example's number. Shape (B, 1)."""
    output: Tensor = forward(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits
    return output.float()


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Estimate:
    """Average over the windows."""
    return Estimate(
        value=float(torch.cat(list(outputs)).mean()),
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
        windows=len(outputs),
    )


def row(answer: Estimate, everything: bool) -> dict[str, Any]:
    """Return the number."""
    return {"value": round(answer.value, 6)}


def plain(answer: Estimate) -> str:
    """Return the number."""
    return f"{answer.value:.6g}"


class Scores:
    """Scores of estimates; see ``heedful.metrics.RegressionScores``."""

    def __init__(self, goal: Goal) -> None:
        from heedful.metrics import RegressionScores  # its library is slow to import

        self._scores = RegressionScores()

    def update(self, answers: Sequence[Estimate], records: Sequence[Record]) -> None:
        """Count estimates for records that have numbers."""
        self._scores.update(
            torch.tensor([answer.value for answer in answers]),
            torch.tensor([target(record) for record in records]),
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()


def card(goal: Goal) -> str:
    """Say what the run estimates."""
    learnt = f"{goal.lowest:g} to {goal.highest:g}"
    return f"Gives a text, or a pair of texts, a number; it learnt from {learnt}."


TASK = Task(
    name="regress",
    head="sequence",
    goal=Goal,
    read=read,
    from_texts=from_texts,
    goal_of=goal_of,
    check=check,
    metrics=metrics,
    encode=encode,
    build=build,
    batch_of=batch_of,
    loss=loss,
    count=count,
    compute=compute,
    decode=decode,
    row=row,
    plain=plain,
    scores=Scores,
    card=card,
)
