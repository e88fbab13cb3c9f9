"""Multiple choice: which of several texts answers a question or continues a text.

The question is paired with each choice. A softmax runs over the choices of an item.

Shapes: B examples, C choices of an item, T longest example.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from heedful import losses, metrics
from heedful.batches import Batch, Draw, Example, Fitted, features
from heedful.batches.collate import class_labels, collate
from heedful.batches.windows import locating_errors
from heedful.device_transfer import reshape_with_host_copy
from heedful.distillation import DistillationLoss
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import ItemScorer
from heedful.models.loading import head_of
from heedful.reading import Text
from heedful.reading.choices import Choices, read_choices
from heedful.settings import ColumnSettings, PredictSettings
from heedful.sources import resolve
from heedful.task import (
    Forward,
    Input,
    LengthLimit,
    Recipe,
    Say,
    Scores,
    Start,
    StoreOf,
    Task,
)
from heedful.tasks.counting import Counting
from heedful.tasks.explanation_targets.decisions import choice as choice_target
from heedful.tasks.item_scorers import decisions as item_scorers
from heedful.tasks.texts import (
    combine_texts,
    encode_training_records,
    refuse_columns,
    start_encoder,
)
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The answer to one question."""

    choice: int
    """Index of the most probable choice, from 0."""
    text: str
    """Its text."""
    score: float
    """Its probability."""
    scores: tuple[float, ...]
    """The probability of each choice."""
    tokens_total: int
    """Number of tokens in all pairs of the question and a choice."""
    tokens_used: int
    """Number of tokens that the model read."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the choice, and on request all probabilities."""
        row = {"choice": self.choice, "text": self.text, "score": round(self.score, 6)}
        if everything:
            row["scores"] = [round(score, 6) for score in self.scores]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the text of the choice, on one line."""
        return " ".join(self.text.split())


@dataclass(frozen=True, kw_only=True, slots=True)
class Choose(Task[Choices, Tensor, Choice]):
    """Chooses among texts."""

    name: ClassVar[str] = "choose"
    example: ClassVar[str] = '"a question" "a choice" "another choice"'

    choices: int | None
    """Number of choices per question; None if a model of another library does not say."""

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Choices]:
        """Stream questions.

        Raises:
            UserError: a question is invalid; names the file and line of the first one.
        """
        refuse_columns(cls.name, columns)
        return read_choices(paths, labelled=labelled, encoding=columns.encoding)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Choices]:
        """Make one record from texts, the first being the question; or one per tuple of texts.

        Raises:
            UserError: there are fewer than two choices, or texts are mixed with tuples.
        """
        single = [number for number, text in enumerate(texts, start=first) if isinstance(text, str)]
        is_flat = 0 < len(single) == len(texts)
        if single and not is_flat:
            raise UserError(
                f"text {single[0]}: expected a question with its choices, like the others, found a "
                "single text"
            )
        items = [tuple(texts)] if is_flat else [text for text in texts if not isinstance(text, str)]
        records = []
        for number, item in enumerate(items, start=first):
            if len(item) < 3:
                raise UserError(
                    f"text {number}: at least 2 choices are needed after the question; "
                    f"there is {max(len(item) - 1, 0)}"
                )
            question, *choices = item
            records.append(
                Choices(
                    question=str(question),
                    choices=tuple(str(choice) for choice in choices),
                    answer=None,
                    where=f"text {number}",
                )
            )
        return records

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A question and its choices."""
        return Input(name="question"), Input(name="choices", variadic=True)

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Take the number of choices from the first question.

        Raises:
            UserError: another question has a different number.
        """
        records = cls.read(recipe.data.train, recipe.columns, labelled=True)
        first = next(records)
        task = cls(choices=len(first.choices))
        for record in records:
            task.check(record)
        return task

    def check(self, record: Choices) -> None:
        """Refuse a question with another number of choices; names file and line."""
        if self.choices is not None and len(record.choices) != self.choices:
            raise UserError(
                f"{record.where}: {len(record.choices)} choices; all questions of a run have the "
                f"same number, here {self.choices}"
            )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("accuracy",)

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder, with a fresh head unless it has a multiple-choice head.

        Raises:
            UserError: long texts are to be read in windows.
        """
        data = recipe.data
        if data.long_text == "window":
            raise UserError(
                "--long-text window: choices are compared as a whole; give head or head-tail"
            )
        trained = head_of(resolve(data.model, data.revision)) == "choice"
        return start_encoder(recipe, head="choice", fresh_head=not trained)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long text is cut to its head by default."""
        return self, start, encode_training_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Choices], tokenizer: Tokenizer, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each question: one part per choice, with several examples if it has windows.

        The label of an example is the index of the right choice.

        Raises:
            UserError: see `check`; or a question is too long and may not be cut; names file and
                line.
        """
        records, copies = tee(records)
        pairs = ((record.question, choice) for record in copies for choice in record.choices)
        fitted = features(pairs, tokenizer, max_length=fit.max_length, rule=fit.long_text)
        for record in records:
            if labelled:
                self.check(record)
            with locating_errors(record):
                texts = list(islice(fitted, len(record.choices)))
            yield combine_texts(texts, () if record.answer is None else (float(record.answer),))

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets: ``labels``, (B,), the right choice of the item."""
        targets = {} if draw is None else {"labels": class_labels(examples)}
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of the items."""
        choices = self._trained()
        labels = batch.targets["labels"][::choices]
        return losses.cross_entropy(_logits(forward, batch, choices), labels)[0]

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of items."""
        return float(batch.num_examples // self._trained())

    def _trained(self) -> int:
        """Return the number of choices, which is always known in training."""
        assert self.choices is not None
        return self.choices

    @property
    def teacher_output(self) -> Literal["scores"]:
        """A teacher provides logits."""
        return "scores"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the choice logits."""
        return (
            DistillationLoss(
                kind="classes",
                divisor=self.loss_divisor(batch),
                extract=lambda output: output.logits,
            ),
        )

    # Answers.

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the logit of each example. Shape (B, 1)."""
        return _logits(model, batch, 1).float()

    def decode(
        self,
        record: Choices,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Choice:
        """Average the logits of each choice over its windows, and choose."""
        parts = torch.tensor([example.part for example in fitted.pieces])
        total = torch.zeros(len(record.choices)).index_add_(0, parts, torch.cat(list(outputs)))
        scores = (total / parts.bincount()).softmax(0).tolist()
        best = max(range(len(scores)), key=scores.__getitem__)
        return Choice(
            choice=best,
            text=record.choices[best],
            score=scores[best],
            scores=tuple(scores),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def explanation_target(
        self,
        computed: Answered[Choices, Tensor, Choice],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain the logit of a choice, given by text or index; default: the chosen one."""
        return choice_target(computed, target, tokenizer, partial(_logits, choices=1))

    def scores(self) -> Scores[Choice, Choices]:
        """Return a new, empty accumulator of scores."""
        return Counting(metrics.ChoiceScores(), _count)

    def item_scorer(self) -> ItemScorer[Choice, Choices]:
        """Return the scorer of its answers."""
        return item_scorers.choices()

    def model_card(self) -> str:
        """Describe the run for its model card."""
        trained_on = (
            "" if self.choices is None else f"; trained on {self.choices} choices per question"
        )
        return f"Chooses the text that answers a question{trained_on}."


def _logits(forward: Forward, batch: Batch, choices: int) -> Tensor:
    """Return the logit of each example, grouped by item. Shape (B / C, C)."""
    inputs = {
        name: reshape_with_host_copy(tensor, -1, choices, tensor.shape[-1])  # (B / C, C, T)
        for name, tensor in batch.inputs.items()
    }
    logits: Tensor = forward(**inputs).logits
    return logits


def _count(
    scores: "metrics.ChoiceScores", answers: Sequence[Choice], records: Sequence[Choices]
) -> None:
    labels = [record.answer for record in records if record.answer is not None]
    scores.update([answer.choice for answer in answers], labels)
