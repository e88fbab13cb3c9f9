"""Regression: a number for a text or a pair, such as the similarity of two sentences."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from heedful import metrics
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate, regression_targets
from heedful.checkpoints.runs import RECORD, read_record
from heedful.distillation import DistillationLoss
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.interop import exported
from heedful.item_results import ItemScorer, six_digits
from heedful.models.model import Model
from heedful.models.with_head import float32_layers
from heedful.reading import Record, Text
from heedful.settings import HEAD_RATE_PER_OUTPUT, ColumnSettings, PredictSettings
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
from heedful.tasks.explanation_targets.decisions import number as number_target
from heedful.tasks.item_scorers import numbers as item_scorers
from heedful.tasks.modalities.texts import Texts
from heedful.tasks.texts import (
    encode_texts,
    encode_training_records,
    read_table,
    start_encoder,
    target,
    text_example,
    text_inputs,
    text_records,
)
from heedful.tokens import Tokenizer

_LEAST_DEVIATION = 1e-30
"""Least standard deviation of the targets: in float32, smaller errors have no square."""
_LEAST_SPREAD = 2.0**-18
"""Least standard deviation relative to the mean: 32 to 64 steps of float32 at the mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The answer to one text or pair."""

    value: float
    """The predicted value."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read."""
    windows: int
    """Number of windows of the text; their values are averaged."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the predicted value."""
        return {
            "value": six_digits(self.value),
            "tokens_total": self.tokens_total,
            "tokens_used": self.tokens_used,
        }

    def plain(self) -> str:
        """Return the predicted value, with the digits that JSON has."""
        return f"{six_digits(self.value):.15g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regress(Task[Record, Tensor, Estimate]):
    """Predicts a number; keeps the mean, deviation and range of the training targets."""

    name: ClassVar[str] = "regress"

    mean: float | None = None
    """Mean of the training targets, the initial prediction of a fresh head. This field and the next
    two are None if unknown."""
    lowest: float | None = None
    highest: float | None = None
    deviation: float | None = None
    """Standard deviation of the training targets; None if unknown."""
    pairs: bool | None = False
    """Whether the inputs are pairs of texts; None for either."""

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream the rows of tables."""
        return read_table(paths, columns, labelled=labelled)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records from texts or pairs."""
        return text_records(texts, first)

    @property
    def example(self) -> str:
        """See ``Task.example``."""
        return text_example(pairs=self.pairs)

    @property
    def has_details(self) -> bool:
        """See ``Task.has_details``."""
        return False

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, or two."""
        return text_inputs(pairs=self.pairs)

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Compute the mean, deviation and range of the training targets.

        Raises:
            UserError: all targets are equal or too close together, or an item may have several.
        """
        columns = recipe.columns
        if columns.label_separator is not None:
            raise UserError("regress takes one number per item: leave out --label-separator")
        records = cls.read(recipe.data.train, columns, labelled=True)
        targets = [target(record) for record in records]
        if min(targets) == max(targets):
            raise UserError(
                f"every number of the training data is {targets[0]:g}: nothing to learn"
            )
        mean = math.fsum(targets) / len(targets)
        deviation = _deviation(targets, mean)
        if deviation < abs(mean) * _LEAST_SPREAD:
            raise UserError(
                f"the numbers of the training data, {targets[0]:.12g} for example, differ by about "
                f"{deviation:.2g}, which is too little to tell them apart in float32: subtract "
                f"{mean:.12g} from each"
            )
        return cls(
            mean=mean,
            lowest=min(targets),
            highest=max(targets),
            deviation=max(deviation, _LEAST_DEVIATION),
            pairs=columns.text_pair is not None,
        )

    def check(self, record: Record) -> None:
        """Raise the errors of `target`."""
        target(record)

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("pearson", "spearman")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder, with its own head if that was trained on targets of the same scale.

        A fresh head predicts about the mean of the training targets, in their scale.
        """
        run = resolve(recipe.data.model, recipe.data.revision)
        if recipe.teaching.student_layers is not None:  # the student is built from the teacher
            run = recipe.teaching.teacher or run
        is_fresh = not self._is_learnt_in(run)
        start = start_encoder(
            recipe, head="sequence", num_labels=1, problem_type="regression", fresh_head=is_fresh
        )
        if is_fresh:
            (output,) = float32_layers(start.model)
            assert isinstance(output, nn.Linear)
            assert self.mean is not None  # set by `from_training_data`
            with torch.no_grad():
                output.weight.mul_(self.target_scale)
                if output.bias is not None:
                    output.bias.fill_(self.mean)
        return replace(
            start, target_scale=self.target_scale, head_lr_multiplier=HEAD_RATE_PER_OUTPUT
        )

    def _is_learnt_in(self, folder: Path) -> bool:
        """Return whether a folder is a run, or its export, trained on targets of the same scale."""
        is_run = (folder / RECORD).is_file()
        record = read_record(folder) if is_run else exported.read_record(folder)
        if record is None or record.task != self.name:
            return False
        keys = ("lowest", "mean", "highest")
        if not all(isinstance(record.goal.get(key), int | float) for key in keys):
            return False  # an unfinished run
        theirs, ours = ([float(goal[key]) for key in keys] for goal in (record.goal, asdict(self)))
        return theirs[0] <= ours[1] <= theirs[2] and ours[0] <= theirs[1] <= ours[2]

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long text is cut to its head by default."""
        return self, start, encode_training_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Record], tokenizer: Tokenizer, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each record: one example, or one per window of a long text."""
        labels = (lambda record: (target(record),)) if labelled else None
        return encode_texts(records, tokenizer, fit, pairs=self.pairs, labels=labels)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples; the targets are ``values``, (B,)."""
        targets = {} if draw is None else {"values": regression_targets(examples)}
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of squared errors, in standard deviations of the training targets."""
        logits: Tensor = forward(**batch.inputs).logits
        errors = logits[:, 0].float() - batch.targets["values"]  # (B,)
        return (errors / self.target_scale).square().sum()

    @property
    def target_scale(self) -> float:
        """See ``Start``. The loss of a run of an earlier version has no scale."""
        return 1.0 if self.deviation is None else self.deviation

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of items."""
        return float(batch.num_examples)

    @property
    def teacher_output(self) -> Literal["values"]:
        """A teacher provides its predicted values."""
        return "values"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the predicted values."""
        scale, divisor = self.target_scale, float(batch.num_examples)
        return (
            DistillationLoss(
                kind="numbers", divisor=divisor, extract=lambda output: output.logits / scale
            ),
        )

    def check_model(self, model: Model) -> None:
        """Refuse a range with only one end, and a deviation that is not above 0."""
        if (self.lowest is None) != (self.highest is None):
            raise UserError(f"lowest is {self.lowest} and highest {self.highest}")
        if not self.target_scale > 0:  # also true for NaN
            raise UserError(f"deviation is {self.deviation}; it must be above 0")

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the predicted value of each example. Shape (B, 1)."""
        logits: Tensor = model(**batch.inputs).logits
        return logits.float()

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Estimate:
        """Average the values over the windows."""
        return Estimate(
            value=float(torch.cat(list(outputs)).mean()),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
        )

    def explanation_target(
        self,
        computed: Answered[Record, Tensor, Estimate],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain the predicted value."""
        return number_target(computed, target, tokenizer, Texts(pairs=self.pairs))

    def scores(self) -> Scores[Estimate, Record]:
        """Return a new, empty accumulator of scores."""
        return Counting(metrics.RegressionScores(), _count)

    def item_scorer(self) -> ItemScorer[Estimate, Record]:
        """Return the scorer of its answers."""
        return item_scorers.estimates()

    def model_card(self) -> str:
        """Describe the run for its model card."""
        has_range = self.lowest is not None
        learnt = (
            f"; trained on numbers from {self.lowest:g} to {self.highest:g}" if has_range else ""
        )
        return f"Predicts a number for a text or a pair of texts{learnt}."


def _count(
    scores: "metrics.RegressionScores", answers: Sequence[Estimate], records: Sequence[Record]
) -> None:
    scores.update(
        torch.tensor([answer.value for answer in answers], dtype=torch.float64),
        torch.tensor([target(record) for record in records], dtype=torch.float64),
    )


def _deviation(targets: Sequence[float], mean: float) -> float:
    """Return the standard deviation of the targets."""
    return math.sqrt(math.fsum((value - mean) ** 2 for value in targets) / len(targets))
