"""Classification of one text or a pair, into one label or several."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from heedful import losses, metrics
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import class_labels, multi_hot
from heedful.device_transfer import copy_to_device
from heedful.distillation import DistillationLoss
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import Answered, ExplanationTarget, OutputActivation
from heedful.item_results import ItemScorer
from heedful.models.model import Model
from heedful.reading import Record
from heedful.reading.delimited import split_values
from heedful.reading.images import ImageRecord
from heedful.settings import (
    HEAD_RATE,
    HEAD_RATE_PER_OUTPUT,
    ClassifySettings,
    ColumnSettings,
    PredictSettings,
    refuse_options,
)
from heedful.task import (
    Ability,
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
from heedful.tasks.answers.labels import Prediction
from heedful.tasks.class_labels import (
    are_measurements,
    class_weights,
    lookalike_labels,
    order_labels,
    stripped,
)
from heedful.tasks.counting import Counting
from heedful.tasks.explanation_targets.decisions import label as label_target
from heedful.tasks.item_scorers import decisions as item_scorers
from heedful.tasks.modalities import Modality
from heedful.tasks.modalities.images import Images, shift_of
from heedful.tasks.modalities.texts import Texts
from heedful.tasks.start_bias import bias_of_counts, set_fresh_bias
from heedful.tasks.texts import check_outputs, encode_training_records

Item = Record | ImageRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Classify(Task[Item, Tensor, Prediction]):
    """Classifies texts or images into one label or several."""

    name: ClassVar[str] = "classify"
    answer_options: ClassVar[frozenset[str]] = frozenset({"raw"})

    labels: tuple[str, ...]
    """Label names, in the order of the model's outputs."""
    multi_label: bool
    """Whether an item may have any number of labels, including none."""
    weights: tuple[float, ...] | None = None
    """Weight in the loss of the items with each label; items without it have weight 1."""
    start_bias: tuple[float, ...] | None = None
    """Bias of a fresh classifier, see `bias_of_counts`; None if unknown, for 0."""
    pairs: bool | None = False
    """Whether the inputs are pairs of texts. None: single texts or pairs, as the training data is
    unknown."""

    pictures: bool = False
    """Whether the inputs are images, not texts."""
    shift: float = 0.0
    """Maximum random shift of training images, as a share of the side length."""

    @property
    def modality(self) -> Modality:
        """The input modality."""
        return Images(shift=self.shift) if self.pictures else Texts(pairs=self.pairs)

    @property
    def example(self) -> str:
        """Example arguments to ``heedful predict RUN``."""
        return self.modality.example

    @property
    def abilities(self) -> frozenset[Ability]:
        """What this run supports; see `Ability`."""
        return frozenset({"see"} if self.pictures else ())

    # Records.

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Item]:
        """Stream the rows of tables, or the images of folders."""
        return self.modality.read(paths, columns, labelled=labelled)

    def from_texts(self, texts: Sequence[Any], first: int = 1) -> list[Item]:
        """Make records from texts, pairs or images."""
        return self.modality.records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, two texts, or an image."""
        return self.modality.inputs

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Derive the labels and their weights from the training data.

        Raises:
            UserError: there are too few labels, or labels that the settings do not list.
        """
        columns, options = recipe.columns, recipe.options
        assert isinstance(options, ClassifySettings)
        pictures, pairs = columns.format == "images", columns.text_pair is not None
        shift = image_options(options, images=pictures)
        modality = cls(labels=(), multi_label=False, pairs=pairs, pictures=pictures).modality
        counts, num_items = Counter[str](), 0
        for record in modality.read(recipe.data.train, columns, labelled=True):
            counts.update(record.labels or ())
            num_items += 1
        multi_label = columns.label_separator is not None
        order = None
        if options.labels is not None:
            order = [stripped(one, counts) for one in split_values("--labels", options.labels)]
        labels = order_labels(counts, order, multi_label=multi_label)
        several = num_items if multi_label else None
        weights = class_weights(options.class_weights, labels, counts, several)
        return cls(
            labels=labels,
            multi_label=multi_label,
            weights=weights,
            start_bias=bias_of_counts([counts[label] for label in labels], weights, several),
            pairs=pairs,
            pictures=pictures,
            shift=shift,
        )

    def check(self, record: Item) -> None:
        """Raise an error if `targets` does."""
        self.targets(record)

    def targets(self, record: Item) -> tuple[float, ...]:
        """Return the class indices of a record's labels.

        Raises:
            UserError: a label is unknown to the model, or a single-label record does not have
                exactly one; the message names file and line.
        """
        where, labels = record.where, record.labels or ()
        if not self.multi_label and len(labels) != 1:
            raise UserError(
                f"{where}: {len(labels)} labels, expected 1; "
                "only a run that is trained with --label-separator has several"
            )
        for label in labels:
            if label not in self.labels:
                several = "; for several, give --label-separator" if self.multi_label else ""
                raise UserError(
                    f"{where}: label {label!r} is not one of the model's"
                    f"{did_you_mean(label, self.labels)}: {join_names(self.labels)}{several}"
                )
        return tuple(float(self.labels.index(label)) for label in labels)

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("accuracy", "macro_f1", "micro_f1" if self.multi_label else "matthews")

    def start(self, recipe: Recipe) -> Start:
        """Load a model, with a fresh classification head unless its head has the same labels."""
        kind = f"{'multi' if self.multi_label else 'single'}_label_classification"
        start = self.modality.start(recipe, self.labels, kind)
        if self.start_bias is not None:
            set_fresh_bias(start.model, self.start_bias)
        multiplier = min(HEAD_RATE, HEAD_RATE_PER_OUTPUT * len(self.labels))
        return replace(start, head_lr_multiplier=multiplier)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long text is cut to its head by default."""
        for first, second in lookalike_labels(self.labels):
            message = "differ only in how they are written, and count as two"
            say(f"labels {first!r} and {second!r} {message}")
        if are_measurements(self.labels):
            say(
                f"the {len(self.labels):,} labels are numbers with fractions, and each of them "
                "counts as a class of its own; `heedful train regress` predicts a number"
            )
        return self, start, encode_training_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Item], tokenizer: Any, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each record: one example, or one per window of a long text."""
        labels = self.targets if labelled else None
        return self.modality.encode(records, tokenizer, fit, labels)

    def batch(self, examples: Sequence[Example], tokenizer: Any, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets: ``labels``, shape (B,), or (B, C) if multi-label."""
        targets = {}
        if draw is not None and self.multi_label:
            targets["labels"] = multi_hot(examples, len(self.labels))
        elif draw is not None:
            targets["labels"] = class_labels(examples)
        return self.modality.batch(examples, tokenizer, targets, draw)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of the batch."""
        logits, labels = forward(**batch.inputs).logits, batch.targets["labels"]
        weights = self._weights()
        weights = None if weights is None else copy_to_device(weights, logits.device)
        if self.multi_label:
            return losses.binary_cross_entropy(logits, labels, positive_weights=weights)[0]
        return losses.cross_entropy(logits, labels, class_weights=weights)[0]

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of labels, or the sum of their weights."""
        labels, weights = batch.targets["labels"], self._weights()
        if self.multi_label or weights is None:
            return float(labels.numel())
        return float(weights[labels.cpu()].sum())

    @property
    def teacher_output(self) -> Literal["scores"]:
        """A teacher provides logits."""
        return "scores"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the class logits."""
        labels = batch.targets["labels"]
        return (
            DistillationLoss(
                kind="switches" if self.multi_label else "classes",
                divisor=float(labels.numel()),
                extract=lambda output: output.logits,
            ),
        )

    def _weights(self) -> Tensor | None:
        return None if self.weights is None else torch.tensor(self.weights, dtype=torch.float64)

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse a model with another number of labels."""
        check_outputs(self.labels, model)

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return label probabilities: a softmax, or independent sigmoids if multi-label.

        With ``settings.raw``, return the logits.

        Shape:
            (B, C).
        """
        logits: Tensor = model(**batch.inputs).logits.float()
        return logits if settings.raw else self._probabilities(logits)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid() if self.multi_label else logits.softmax(-1)

    def decode(
        self,
        record: Item,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Any,
    ) -> Prediction:
        """Average the probabilities or logits over the windows, and choose labels.

        The mean probabilities decide, also where the scores are logits.
        """
        scores = probabilities = self._means(outputs)
        if settings.raw:
            probabilities = self._means([self._probabilities(logits) for logits in outputs])
        label: str | list[str]
        if self.multi_label:
            label = [name for name, value in probabilities.items() if value >= 0.5]
        else:
            label = max(probabilities, key=probabilities.__getitem__)
        return Prediction(
            label=label,
            score=None if isinstance(label, list) else scores[label],
            scores=scores,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
            picture=record.file if isinstance(record, ImageRecord) else None,
        )

    def _means(self, rows: Sequence[Tensor]) -> dict[str, float]:
        """Return the mean of each label. Shape (C,) for each window."""
        mean = rows[0] if len(rows) == 1 else torch.stack(list(rows)).mean(0)  # (C,)
        return dict(zip(self.labels, mean.tolist(), strict=True))

    def explanation_target(
        self,
        computed: Answered[Item, Tensor, Prediction],
        target: str | None,
        tokenizer: Any,
    ) -> ExplanationTarget:
        """Explain the logit of the given label, or by default of the most probable one."""
        link: OutputActivation = "sigmoid" if self.multi_label else "softmax"
        return label_target(computed, target, tokenizer, self.labels, link, self.modality)

    def scores(self) -> Scores[Prediction, Item]:
        """Return a new, empty accumulator of scores."""
        counter = metrics.ClassificationScores(self.labels, multi_label=self.multi_label)
        return Counting(counter, partial(_count, self))

    def item_scorer(self) -> ItemScorer[Prediction, Item]:
        """Return the scorer of its answers."""
        make_scorer = item_scorers.several_labels if self.multi_label else item_scorers.one_label
        return make_scorer(self.labels)

    def model_card(self) -> str:
        """Describe the run for its model card."""
        noun, number = self.modality.noun, len(self.labels)
        choice = "any number" if self.multi_label else "one"
        kind = f"{choice} of {number:,} labels" if number > 1 else "one label or none"
        return f"Gives each {noun} {kind}: {join_names(self.labels)}."


def _count(
    task: Classify,
    scores: "metrics.ClassificationScores",
    answers: Sequence[Prediction],
    records: Sequence[Item],
) -> None:
    label_scores = torch.tensor([list(answer.scores.values()) for answer in answers])
    indices = [task.targets(record) for record in records]
    num_labels = len(task.labels)
    truth = target_tensor(indices, num_labels=num_labels, multi_label=task.multi_label)
    scores.update(label_scores.view(len(answers), num_labels), truth)


def image_options(options: ClassifySettings, *, images: bool) -> float:
    """Return the maximum shift of images as a share of their side; 0 for texts.

    Raises:
        UserError: an image option is given for texts.
    """
    if images:
        return shift_of(options)
    names = ("preset", "image_size", "shift", "patch_size", "grey")
    refuse_options(options, names, "is for images: give --format images too")
    return 0.0


def target_tensor(rows: Sequence[Sequence[float]], *, num_labels: int, multi_label: bool) -> Tensor:
    """Stack class indices into the target tensor for the scores.

    Shape:
        (N,) class indices, or (N, num_labels) of 0 and 1.
    """
    if not multi_label:
        return torch.tensor([index for (index,) in rows], dtype=torch.int64)
    multi_hot_rows = torch.zeros(len(rows), num_labels, dtype=torch.int64)
    for row, indices in zip(multi_hot_rows, rows, strict=True):
        row[[int(index) for index in indices]] = 1
    return multi_hot_rows
