"""Classification of one text or a pair, into one label or several."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from unicodedata import normalize

import torch
from torch import Tensor

from heedful import losses, metrics
from heedful.aim import Aim, Computed, Link
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import class_labels, multi_hot
from heedful.errors import UserError, amount, did_you_mean, listed
from heedful.host import send
from heedful.judging import Judge
from heedful.lesson import Lesson
from heedful.models.model import Model
from heedful.reading import Record
from heedful.reading.pictures import Picture
from heedful.settings import ClassifySettings, ColumnSettings, PredictSettings, left_out
from heedful.task import Ability, Fit, Forward, Input, Recipe, Say, Scores, Start, StoreOf, Task
from heedful.tasks.aims import decisions as aims
from heedful.tasks.answers.labels import Prediction
from heedful.tasks.counting import Counting
from heedful.tasks.judges import decisions as judges
from heedful.tasks.media import Medium
from heedful.tasks.media.pictures import Pictures, shift_of
from heedful.tasks.media.texts import Texts
from heedful.tasks.texts import check_outputs, store_records

Item = Record | Picture

_NO_WIDTH = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Classify(Task[Item, Tensor, Prediction]):
    """What a classifier decides between."""

    name: ClassVar[str] = "classify"
    answer_options: ClassVar[frozenset[str]] = frozenset({"raw"})

    labels: tuple[str, ...]
    """In the order of the model's outputs."""
    multi_label: bool
    """Whether an item may have several labels or none."""
    weights: tuple[float, ...] | None = None
    """How much each label counts in the loss."""
    pairs: bool | None = False
    """Whether it reads pairs of texts; else single ones. None: either, as nobody knows what it
    learnt from."""

    pictures: bool = False
    """Whether it reads pictures; else texts."""
    shift: float = 0.0
    """The share of a side by which pictures are moved at random to learn from."""

    @property
    def medium(self) -> Medium:
        """What it reads."""
        return Pictures(shift=self.shift) if self.pictures else Texts(pairs=self.pairs)

    @property
    def example(self) -> str:
        """What a user may put after ``heedful predict RUN`` to try it."""
        return self.medium.example

    @property
    def abilities(self) -> frozenset[Ability]:
        """What only some runs can do."""
        return frozenset({"see"} if self.pictures else ())

    # Records.

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Item]:
        """Stream the rows of tables, or the pictures of folders."""
        return self.medium.read(paths, columns, labelled=labelled)

    def from_texts(self, texts: Sequence[Any], first: int = 1) -> list[Item]:
        """Make records of texts or pairs, or of pictures."""
        return self.medium.records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, or two; or a picture."""
        return self.medium.inputs

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """Take the labels and their weights from the training data.

        Raises:
            UserError: fewer labels than a decision needs, or others than the settings name.
        """
        columns, options = recipe.columns, recipe.options
        assert isinstance(options, ClassifySettings)
        pictures, pairs = columns.format == "images", columns.text_pair is not None
        shift = picture_options(options, pictures=pictures)
        medium = cls(labels=(), multi_label=False, pairs=pairs, pictures=pictures).medium
        records = medium.read(recipe.data.train, columns, labelled=True)
        counts = Counter(label for record in records for label in record.labels or ())
        multi_label = columns.label_separator is not None
        order = options.labels.split(",") if options.labels is not None else None
        if order is not None:
            order = [_stripped(label, counts) for label in order]
        labels = order_labels(counts, order, multi_label=multi_label)
        return cls(
            labels=labels,
            multi_label=multi_label,
            weights=class_weights(options.class_weights, labels, counts),
            pairs=pairs,
            pictures=pictures,
            shift=shift,
        )

    def check(self, record: Item) -> None:
        """Raise the errors of `targets`."""
        self.targets(record)

    def targets(self, record: Item) -> tuple[float, ...]:
        """Return the numbers of a record's labels.

        Raises:
            UserError: a label that the model does not have, or several where it gives one, with
                file and line.
        """
        where, labels = record.where, record.labels or ()
        if not self.multi_label and len(labels) != 1:
            raise UserError(
                f"{where}: {len(labels)} labels, expected 1; "
                "only a run that is trained with --label-separator has several"
            )
        for label in labels:
            if label not in self.labels:
                several = "; --label-separator parts several" if self.multi_label else ""
                raise UserError(
                    f"{where}: label {label!r} is not one of the model's"
                    f"{did_you_mean(label, self.labels)}: {listed(self.labels)}{several}"
                )
        return tuple(float(self.labels.index(label)) for label in labels)

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name what can pick the best step."""
        return ("accuracy", "macro_f1", "micro_f1" if self.multi_label else "matthews")

    def start(self, recipe: Recipe) -> Start:
        """Load a model, with a fresh classifier unless it has one for the same labels."""
        kind = f"{'multi' if self.multi_label else 'single'}_label_classification"
        return self.medium.start(recipe, self.labels, kind)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records, of a long text its head unless told otherwise."""
        for first, second in alike(self.labels):
            how = "differ only in how they are written, and count as two"
            say(f"labels {first!r} and {second!r} {how}")
        return self, start, store_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Item], tokenizer: Any, fit: Fit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Turn each record into one example, or several where a long text is read in windows."""
        labels = self.targets if labelled else None
        return self.medium.encode(records, tokenizer, fit, labels)

    def batch(self, examples: Sequence[Example], tokenizer: Any, draw: Draw | None) -> Batch:
        """Pad examples; the targets are ``labels``, (B,) or of several labels each (B, C)."""
        targets = {}
        if draw is not None and self.multi_label:
            targets["labels"] = multi_hot(examples, len(self.labels))
        elif draw is not None:
            targets["labels"] = class_labels(examples)
        return self.medium.batch(examples, tokenizer, targets, draw)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the batch's cross entropies."""
        logits = forward(**batch.inputs).logits
        entropy = losses.binary_cross_entropy if self.multi_label else losses.cross_entropy
        weights = self._weights()
        weights = None if weights is None else send(weights, logits.device)
        return entropy(logits, batch.targets["labels"], class_weights=weights)[0]

    def count(self, batch: Batch) -> float:
        """Return the number of labels, or the sum of their weights."""
        labels, weights = batch.targets["labels"], self._weights()
        if self.multi_label or weights is None:
            return float(labels.numel())
        return float(weights[labels.cpu()].sum())

    @property
    def taught_by(self) -> Literal["scores"]:
        """A teacher gives scores."""
        return "scores"

    def lessons(self, batch: Batch) -> tuple[Lesson, ...]:
        """Return the scores of the labels."""
        labels = batch.targets["labels"]
        return (
            Lesson(
                kind="switches" if self.multi_label else "classes",
                count=float(labels.numel()),
                read=lambda output: output.logits,
            ),
        )

    def _weights(self) -> Tensor | None:
        return None if self.weights is None else torch.tensor(self.weights, dtype=torch.float64)

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse a model of another number of labels."""
        check_outputs(self.labels, model)

    def compute(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the probability of each label: rows sum to 1, or each label stands for itself.

        Of raw numbers, return the logits.

        Shape:
            (B, C).
        """
        logits: Tensor = model(**batch.inputs).logits.float()
        if settings.raw:
            return logits
        return logits.sigmoid() if self.multi_label else logits.softmax(-1)

    def decode(
        self,
        record: Item,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Any,
    ) -> Prediction:
        """Average the windows' probabilities, or logits, and choose."""
        mean = outputs[0] if len(outputs) == 1 else torch.stack(list(outputs)).mean(0)  # (C,)
        scores = dict(zip(self.labels, mean.tolist(), strict=True))
        label: str | list[str]
        if self.multi_label:
            likely_from = 0.0 if settings.raw else 0.5  # a logit of 0 is a probability of 0.5
            label = [name for name, score in scores.items() if score >= likely_from]
        else:
            label = max(scores, key=scores.__getitem__)
        return Prediction(
            label=label,
            score=None if isinstance(label, list) else scores[label],
            scores=scores,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
            picture=record.file if isinstance(record, Picture) else None,
        )

    def aim(
        self,
        computed: Computed[Item, Tensor, Prediction],
        target: str | None,
        tokenizer: Any,
    ) -> Aim:
        """Explain the logit of a label: the one that is named, or the likeliest."""
        link: Link = "sigmoid" if self.multi_label else "softmax"
        return aims.label(computed, target, tokenizer, self.labels, link, self.medium)

    def scores(self) -> Scores[Prediction, Item]:
        """Return empty scores."""
        counter = metrics.ClassificationScores(self.labels, multi_label=self.multi_label)
        return Counting(counter, partial(_count, self))

    def judge(self) -> Judge[Prediction, Item]:
        """Return what judges its answers."""
        of_labels = judges.several_labels if self.multi_label else judges.one_label
        return of_labels(self.labels)

    def card(self) -> str:
        """Say what the run decides."""
        one = self.inputs[0].name if self.pictures else "text"
        kind = f"any number of labels a {one}" if self.multi_label else f"one label a {one}"
        number, names = amount(len(self.labels), "label"), listed(self.labels)
        return f"Sorts {self.medium.plural} into {number} ({kind}): {names}."


def _count(
    task: Classify,
    scores: "metrics.ClassificationScores",
    answers: Sequence[Prediction],
    records: Sequence[Item],
) -> None:
    rows = torch.tensor([list(answer.scores.values()) for answer in answers])
    numbers = [task.targets(record) for record in records]
    labels = len(task.labels)
    truth = target_tensor(numbers, num_labels=labels, multi_label=task.multi_label)
    scores.update(rows.view(len(answers), labels), truth)


def picture_options(options: ClassifySettings, *, pictures: bool) -> float:
    """Return by which share of a side pictures are moved; 0 for texts.

    Raises:
        UserError: an option of pictures is given for texts.
    """
    if pictures:
        return shift_of(options)
    names = ("preset", "image_size", "shift", "patch_size", "grey")
    left_out(options, names, "is for pictures: give --format images too")
    return 0.0


def order_labels(
    counts: Counter[str], order: Sequence[str] | None, *, multi_label: bool
) -> tuple[str, ...]:
    """Decide the order of the labels: as told, else by number if all are numbers, else by name.

    Raises:
        UserError: fewer labels than a decision needs, or the data has one that was not given.
    """
    if order is not None:
        labels = list(order)
        for label, times in Counter(labels).items():
            if times > 1:
                raise UserError(f"--labels names {label!r} {times} times")
        if odd := sorted(set(counts) - set(labels)):
            raise UserError(
                f"label {odd[0]!r} in the training data is not among --labels"
                f"{did_you_mean(odd[0], labels)}: {listed(labels)}"
            )
    elif all(map(_NUMBER.fullmatch, counts)):
        labels = sorted(counts, key=Decimal)  # of any length, unlike int
    else:
        labels = sorted(counts)
    fewest = 1 if multi_label else 2
    if len(labels) < fewest:
        only = f"only {labels[0]!r}" if labels else "none"
        raise UserError(f"at least 2 different labels are needed; the training data has {only}")
    return tuple(labels)


def _stripped(label: str, known: Container[str]) -> str:
    """Return a label as the data has it, where a user set spaces after commas."""
    return label if label in known else label.strip()


def alike(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of labels that differ in how they are written alone, or are one number.

    Quotes are kept where a CSV file has a space beside them: ``a text, "label"``.
    """
    seen: dict[str | Decimal, str] = {}
    for label in labels:
        bare = " ".join(_NO_WIDTH.sub("", normalize("NFKC", label.casefold())).split()).strip('"')
        first = seen.setdefault(Decimal(bare) if _NUMBER.fullmatch(bare) else bare, label)
        if first != label:
            yield first, label


def class_weights(
    setting: str | None, labels: Sequence[str], counts: Counter[str]
) -> tuple[float, ...] | None:
    """Read ``--class-weights``: nothing, ``balanced``, or ``label=weight`` pairs with commas.

    ``balanced`` gives each class the same total weight: items / (classes x items of the class).

    Raises:
        UserError: an unknown label, or a weight that is not a number above 0.
    """
    if setting is None:
        return None
    if setting == "balanced":
        total = counts.total()
        return tuple(total / (len(labels) * max(1, counts[label])) for label in labels)
    weights = dict.fromkeys(labels, 1.0)
    for part in setting.split(","):
        label, equals, number = part.rpartition("=")
        label = _stripped(label, weights)
        if not equals or label not in weights:
            raise UserError(
                f"--class-weights {part!r}: expected 'balanced' or label=weight with a label of "
                f"the data{did_you_mean(label, labels)}: {listed(labels)}"
            )
        try:
            weights[label] = float(number)
        except ValueError:
            weights[label] = 0.0
        if not 0 < weights[label] < float("inf"):
            raise UserError(f"--class-weights {part!r}: the weight must be a number above 0")
    return tuple(weights.values())


def target_tensor(rows: Sequence[Sequence[float]], *, num_labels: int, multi_label: bool) -> Tensor:
    """Stack the labels' numbers as the scores want them.

    Shape:
        (N,) class numbers, or (N, num_labels) of 0 and 1.
    """
    if not multi_label:
        return torch.tensor([number for (number,) in rows], dtype=torch.int64)
    hot = torch.zeros(len(rows), num_labels, dtype=torch.int64)
    for row, numbers in zip(hot, rows, strict=True):
        row[[int(number) for number in numbers]] = 1
    return hot
