"""Multiple choice: which of several texts answers a question or goes on from a text.

The question is read with each choice as a pair; the choices of an item share a softmax.

Shapes: B examples, C choices of an item, T longest example.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, collate, features
from heedful.errors import UserError
from heedful.models.loading import head_of, load_model
from heedful.models.model import Model
from heedful.reading import Text
from heedful.reading.choices import Choices, read_choices
from heedful.settings import ChooseSettings, ColumnSettings, DataSettings, PredictSettings
from heedful.sources import resolve
from heedful.tasks.task import Fit, Forward, Task, encoder_options
from heedful.tasks.texts import numbered
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What is chosen from."""

    choices: int
    """How many choices each question has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The answer to one question."""

    choice: int
    """The number of the likeliest choice, from 0."""
    text: str
    """Its text."""
    score: float
    """Its probability."""
    scores: tuple[float, ...]
    """The probability of every choice."""
    tokens_total: int
    """Tokens of the question with each choice."""
    tokens_used: int
    """Tokens the model was given."""


def read(paths: Sequence[Path], columns: ColumnSettings, labelled: bool) -> Iterator[Choices]:
    """Stream questions.

    Raises:
        UserError: naming the file and line of the first that cannot be used.
    """
    return read_choices(paths, labelled=labelled)


def from_texts(texts: Sequence[Text]) -> list[Choices]:
    """Make a record of texts, the first being the question; or one of each tuple of texts.

    Raises:
        UserError: there are fewer than two choices.
    """
    single = all(isinstance(text, str) for text in texts)
    items = [tuple(texts)] if single else [text for text in texts if not isinstance(text, str)]
    records = []
    for number, (question, *choices) in enumerate(items, start=1):
        if len(choices) < 2:
            raise UserError(
                f"text {number}: at least 2 choices are needed after the question; "
                f"there is {len(choices)}"
            )
        records.append(
            Choices(
                question=str(question),
                choices=tuple(str(choice) for choice in choices),
                answer=None,
                where=f"text {number}",
            )
        )
    return records


def goal_of(records: Iterable[Choices], columns: ColumnSettings, settings: ChooseSettings) -> Goal:
    """Count the choices.

    Raises:
        UserError: a question has another number of them than the first.
    """
    goal: Goal | None = None
    for record in records:
        goal = goal or Goal(choices=len(record.choices))
        check(record, goal)
    assert goal is not None
    return goal


def check(record: Choices, goal: Goal) -> None:
    """Refuse a question with another number of choices, with file and line."""
    if len(record.choices) != goal.choices:
        raise UserError(
            f"{record.where}: {len(record.choices)} choices; "
            f"every question of a run has as many as its first: {goal.choices}"
        )


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return ("accuracy",)


def encode(
    records: Iterable[Choices], goal: Goal, tokenizer: Tokenizer, fit: Fit, labelled: bool
) -> Iterator[Fitted[Example]]:
    """Turn each question into one example a choice, or several where a long text has windows.

    The labels of an example are the number of its choice, and where there is something to learn
    the number of the right one.
    """
    records, copies = tee(records)
    pairs = ((record.question, choice) for record in copies for choice in record.choices)
    fitted = features(pairs, tokenizer, max_length=fit.max_length, rule=fit.rule)
    for record in records:
        if labelled:
            check(record, goal)
        own = list(islice(fitted, len(record.choices)))
        right = () if record.answer is None else (float(record.answer),)
        yield numbered(own, right)


def build(goal: Goal, data: DataSettings) -> Model:
    """Load an encoder, with a fresh head unless the model has learnt to choose.

    Raises:
        UserError: long texts are to be learnt in windows.
    """
    if data.long_text == "window":
        raise UserError(
            "--long-text window: choices are compared as wholes; give head or head-tail"
        )
    model: Model = load_model(
        data.model,
        head="choice",
        fresh_head=head_of(resolve(data.model, data.revision)) != "choice",
        **encoder_options(data),
    )
    return model


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples; the labels are, for each, the number of its item's right choice."""
    batch = collate(examples, pad_id=tokenizer.pad_token_id)
    if draw is None:
        return batch
    right = torch.tensor([int(example.labels[1]) for example in examples])  # (B,)
    return replace(batch, labels=right)


def _scores(forward: Forward, batch: Batch, choices: int) -> Tensor:
    """Return a score for each example, those of an item side by side. Shape (B / C, C)."""
    items = len(batch.input_ids) // choices

    def grouped(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.view(items, choices, -1)  # (B / C, C, T)

    logits: Tensor = forward(
        grouped(batch.input_ids), grouped(batch.attention_mask), grouped(batch.token_type_ids)
    ).logits
    return logits


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the items' cross entropies and how many items there are."""
    assert batch.labels is not None
    return losses.cross_entropy(
        _scores(forward, batch, goal.choices), batch.labels[:: goal.choices]
    )


def count(batch: Batch, goal: Goal) -> float:
    """Return the number of items."""
    return float(len(batch.input_ids) // goal.choices)


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Return each example's score. Shape (B, 1)."""
    return _scores(forward, batch, 1).float()


def decode(
    record: Choices,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Choice:
    """Average each choice's windows and choose."""
    owners = torch.tensor([int(piece.labels[0]) for piece in fitted.pieces])
    total = torch.zeros(len(record.choices)).index_add_(0, owners, torch.cat(list(outputs)))
    scores = (total / owners.bincount()).softmax(0).tolist()
    best = max(range(len(scores)), key=scores.__getitem__)
    return Choice(
        choice=best,
        text=record.choices[best],
        score=scores[best],
        scores=tuple(scores),
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
    )


def row(answer: Choice, everything: bool) -> dict[str, Any]:
    """Return the choice, and with ``everything`` the probability of each."""
    found = {"choice": answer.choice, "text": answer.text, "score": round(answer.score, 6)}
    more = {"scores": [round(score, 6) for score in answer.scores]} if everything else {}
    return found | more


def plain(answer: Choice) -> str:
    """Return the text of the choice, on one line."""
    return " ".join(answer.text.split())


class Scores:
    """Scores of choices; see ``heedful.metrics.ChoiceScores``."""

    def __init__(self, goal: Goal) -> None:
        from heedful.metrics import ChoiceScores  # its library is slow to import

        self._scores = ChoiceScores(goal.choices)

    def update(self, answers: Sequence[Choice], records: Sequence[Choices]) -> None:
        """Count choices for questions whose answer is known."""
        right = [record.answer for record in records if record.answer is not None]
        self._scores.update([answer.choice for answer in answers], right)

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()


def card(goal: Goal) -> str:
    """Say what the run chooses from."""
    return f"Chooses the text that answers a question; it learnt from {goal.choices} choices each."


TASK = Task(
    name="choose",
    head="choice",
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
    per_item=lambda goal: goal.choices,
    example='"a question" "a choice" "another choice"',
    uses_columns=False,
)
