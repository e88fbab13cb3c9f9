"""Classification of one text or a pair, into one label or several."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.errors import UserError, did_you_mean, listed
from heedful.models.loading import load_model, read_config
from heedful.models.model import Model
from heedful.reading import Record
from heedful.settings import ClassifySettings, ColumnSettings, DataSettings, PredictSettings
from heedful.sources import resolve
from heedful.tasks.task import Fit, Forward, Task, encoder_options
from heedful.tasks.texts import encode_texts, from_texts, read
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a classifier decides between."""

    labels: tuple[str, ...]
    """In the order of the model's outputs."""
    multi_label: bool
    """Whether an item may have several labels or none."""
    weights: tuple[float, ...] | None = None
    """How much each label counts in the loss."""
    pairs: bool = False
    """Whether it reads pairs of texts; else single ones."""

    @property
    def index(self) -> dict[str, int]:
        """The number of each label."""
        return {label: number for number, label in enumerate(self.labels)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The answer for one text."""

    label: str | list[str]
    """The likeliest label; for a multi-label run every label whose probability is at least 0.5."""
    score: float | None
    """Its probability; none for a multi-label run."""
    scores: dict[str, float]
    """Probability of every label, in the order of the run's labels."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given: fewer only where ``long_text`` leaves some out."""
    windows: int
    """Windows the text was read in; their probabilities are averaged."""


def goal_of(records: Iterable[Record], columns: ColumnSettings, settings: ClassifySettings) -> Goal:
    """Find the labels and their weights.

    Raises:
        UserError: fewer labels than a decision needs, or others than the settings name.
    """
    found = Counter(label for record in records for label in record.labels or ())
    multi_label = columns.label_separator is not None
    given = settings.labels.split(",") if settings.labels is not None else None
    labels = order_labels(found, given, multi_label=multi_label)
    weights = class_weights(settings.class_weights, labels, found)
    return Goal(
        labels=labels,
        multi_label=multi_label,
        weights=weights,
        pairs=columns.text_pair is not None,
    )


def order_labels(
    found: Counter[str], given: Sequence[str] | None, *, multi_label: bool
) -> tuple[str, ...]:
    """Decide the order of the labels: as given, else by number if all are numbers, else by name.

    Raises:
        UserError: fewer labels than a decision needs, or the data has one that was not given.
    """
    if given is not None:
        labels = list(given)
        for label, times in Counter(labels).items():
            if times > 1:
                raise UserError(f"--labels names {label!r} {times} times")
        if odd := sorted(set(found) - set(labels)):
            raise UserError(
                f"label {odd[0]!r} in the training data is not among --labels"
                f"{did_you_mean(odd[0], labels)}: {listed(labels)}"
            )
    elif all(label.isdecimal() and label.isascii() for label in found):
        labels = sorted(found, key=int)
    else:
        labels = sorted(found)
    fewest = 1 if multi_label else 2
    if len(labels) < fewest:
        only = f"only {labels[0]!r}" if labels else "none"
        raise UserError(f"at least 2 different labels are needed; the training data has {only}")
    return tuple(labels)


def class_weights(
    setting: str | None, labels: Sequence[str], found: Counter[str]
) -> tuple[float, ...] | None:
    """Read ``--class-weights``: nothing, ``balanced``, or ``label=weight`` pairs with commas.

    ``balanced`` gives each class the same total weight: items / (classes x items of the class).

    Raises:
        UserError: an unknown label, or a weight that is not a number above 0.
    """
    if setting is None:
        return None
    if setting == "balanced":
        total = found.total()
        return tuple(total / (len(labels) * max(1, found[label])) for label in labels)
    weights = dict.fromkeys(labels, 1.0)
    for part in setting.split(","):
        label, equals, number = part.rpartition("=")
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


def targets(record: Record, goal: Goal) -> tuple[float, ...]:
    """Return the numbers of a record's labels.

    Raises:
        UserError: a label that the model does not have, or several where it gives one, with file
            and line.
    """
    if not goal.multi_label and len(record.labels or ()) != 1:
        raise UserError(
            f"{record.source}, line {record.line}: {len(record.labels or ())} labels, expected 1; "
            "--label-separator trains for any number of labels"
        )
    index = goal.index
    for label in record.labels or ():
        if label not in index:
            raise UserError(
                f"{record.source}, line {record.line}: label {label!r} is not one of the model's"
                f"{did_you_mean(label, index)}: {listed(index)}"
            )
    return tuple(float(index[label]) for label in record.labels or ())


def check(record: Record, goal: Goal) -> None:
    """Raise the errors of :func:`targets`."""
    targets(record, goal)


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    if goal.multi_label:
        return ("accuracy", "macro_f1", "micro_f1")
    return ("accuracy", "macro_f1", "matthews")


def encode(
    records: Iterable[Record], goal: Goal, tokenizer: Tokenizer, fit: Fit, labelled: bool
) -> Iterator[Fitted[Example]]:
    """Turn each record into one example, or several where a long text is read in windows."""
    labels = partial(targets, goal=goal) if labelled else None
    return encode_texts(records, tokenizer, fit, pairs=goal.pairs, labels=labels)


def build(goal: Goal, data: DataSettings) -> Model:
    """Load an encoder, with a fresh classifier unless it has one for the same labels."""
    folder = resolve(data.model, data.revision)
    problem = "multi_label_classification" if goal.multi_label else "single_label_classification"
    model: Model = load_model(
        data.model,
        head="sequence",
        id2label=dict(enumerate(goal.labels)),
        problem_type=problem,
        # A run's classifier for other labels, or for these in another order, would mislead.
        fresh_head=tuple(read_config(folder).id2label.values()) != goal.labels,
        **encoder_options(data),
    )
    return model


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples, with their labels where there is something to learn."""
    return collate(
        examples,
        pad_id=tokenizer.pad_token_id,
        labels=None if draw is None else "classes" if goal.multi_label else "class",
        num_labels=len(goal.labels),
    )


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the batch's losses and the weight to divide it by."""
    logits = forward(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits
    assert batch.labels is not None
    weights = _weights(goal)
    if goal.multi_label:
        return losses.binary_cross_entropy(logits, batch.labels, class_weights=weights)
    return losses.cross_entropy(logits, batch.labels, class_weights=weights)


def count(batch: Batch, goal: Goal) -> float:
    """Return what :func:`loss` will divide by, from the labels alone."""
    assert batch.labels is not None
    if goal.multi_label:
        return float(batch.labels.numel())
    weights = _weights(goal)
    return float(len(batch.labels)) if weights is None else float(weights[batch.labels.cpu()].sum())


def _weights(goal: Goal) -> Tensor | None:
    return None if goal.weights is None else torch.tensor(goal.weights, dtype=torch.float64)


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Return the probability of each label: rows sum to 1, or each label stands for itself.

    Shape:
        (B, labels).
    """
    logits = forward(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits.float()
    probabilities: Tensor = logits.sigmoid() if goal.multi_label else logits.softmax(-1)
    return probabilities


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Prediction:
    """Average the windows' probabilities and choose."""
    mean = outputs[0] if len(outputs) == 1 else torch.stack(list(outputs)).mean(0)  # (labels,)
    row = mean.tolist()
    best = max(range(len(row)), key=row.__getitem__)
    chosen = [label for label, p in zip(goal.labels, row, strict=True) if p >= 0.5]
    return Prediction(
        label=chosen if goal.multi_label else goal.labels[best],
        score=None if goal.multi_label else row[best],
        scores=dict(zip(goal.labels, row, strict=True)),
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
        windows=len(outputs),
    )


def row(answer: Prediction, everything: bool) -> dict[str, Any]:
    """Return the label with its probability, and on request those of all labels."""
    found: dict[str, Any] = {"label": answer.label}
    if answer.score is not None:
        found["score"] = round(answer.score, 6)
    if everything or answer.score is None:
        found["scores"] = {name: round(value, 6) for name, value in answer.scores.items()}
    return found


def plain(answer: Prediction) -> str:
    """Return the label, or labels with commas."""
    return answer.label if isinstance(answer.label, str) else ",".join(answer.label)


class Scores:
    """Scores of predictions; see ``heedful.metrics.ClassificationScores``."""

    def __init__(self, goal: Goal) -> None:
        from heedful.metrics import ClassificationScores  # its library is slow to import

        self._goal = goal
        self._scores = ClassificationScores(goal.labels, multi_label=goal.multi_label)

    def update(self, answers: Sequence[Prediction], records: Sequence[Record]) -> None:
        """Count predictions for records that have labels."""
        rows = [list(answer.scores.values()) for answer in answers]
        numbers = [targets(record, self._goal) for record in records]
        labels = len(self._goal.labels)
        truth = target_tensor(numbers, num_labels=labels, multi_label=self._goal.multi_label)
        self._scores.update(torch.tensor(rows).view(len(rows), labels), truth)

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()


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


def card(goal: Goal) -> str:
    """Say what the run decides."""
    kind = "any number of labels a text" if goal.multi_label else "one label a text"
    return f"Sorts text into {len(goal.labels)} labels ({kind}): {listed(goal.labels)}."


TASK = Task(
    name="classify",
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
