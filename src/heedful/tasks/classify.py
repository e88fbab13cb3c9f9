"""Classification of one text or a pair, into one label or several.

The functions of a task: read, encode, build, loss, decode, score.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heedful import losses
from heedful.batches import (
    Batch,
    Columns,
    Example,
    Fitted,
    Record,
    Rule,
    Text,
    features,
    read_records,
)
from heedful.errors import UserError, did_you_mean
from heedful.models import BertConfig, BertForSequenceClassification
from heedful.sources import resolve
from heedful.tokens import BertTokenizer

if TYPE_CHECKING:
    from heedful.metrics import ClassificationScores

METRICS = ("accuracy", "macro_f1", "matthews")
MULTI_LABEL_METRICS = ("accuracy", "macro_f1", "micro_f1")
"""What can pick the best step; the first does unless told otherwise."""


def read(paths: Sequence[Path], columns: Columns, file_format: str | None) -> Iterator[Record]:
    """Stream labelled records.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    return read_records(paths, columns, file_format)


def count_labels(records: Iterable[Record]) -> Counter[str]:
    """Count each label, in one pass over the records."""
    return Counter(label for record in records for label in record.labels or ())


def order_labels(
    found: Counter[str], given: Sequence[str] | None, *, multi_label: bool
) -> list[str]:
    """Decide the order of the labels: as given, else by number if all are numbers, else by name.

    Raises:
        UserError: fewer labels than a decision needs, or the data has one that was not given.
    """
    if given is not None:
        labels = list(given)
        if len(set(labels)) < len(labels):
            raise UserError(f"--labels names a label twice: {','.join(labels)}")
        if odd := sorted(set(found) - set(labels)):
            raise UserError(
                f"label {odd[0]!r} in the training data is not among --labels"
                f"{did_you_mean(odd[0], labels)}: {', '.join(labels)}"
            )
    elif all(label.isdecimal() and label.isascii() for label in found):
        labels = sorted(found, key=int)
    else:
        labels = sorted(found)
    fewest = 1 if multi_label else 2
    if len(labels) < fewest:
        only = f"only {labels[0]!r}" if labels else "none"
        raise UserError(f"at least 2 different labels are needed; the training data has {only}")
    return labels


def targets(record: Record, index: dict[str, int], *, multi_label: bool) -> tuple[float, ...]:
    """Return the numbers of a record's labels.

    Raises:
        UserError: a label that the model does not have, or several where it gives one, with file
            and line.
    """
    if not multi_label and len(record.labels or ()) != 1:
        raise UserError(
            f"{record.source}, line {record.line}: {len(record.labels or ())} labels, expected 1; "
            "--label-separator trains for any number of labels"
        )
    for label in record.labels or ():
        if label not in index:
            raise UserError(
                f"{record.source}, line {record.line}: label {label!r} is not one of the model's"
                f"{did_you_mean(label, index)}: {', '.join(list(index)[:20])}"
            )
    return tuple(float(index[label]) for label in record.labels or ())


def text_of(record: Record) -> Text:
    """Return a record's text, or its pair of texts."""
    return record.text if record.text_pair is None else (record.text, record.text_pair)


def encode(
    records: Iterable[Record],
    tokenizer: BertTokenizer,
    labels: Sequence[str],
    *,
    multi_label: bool,
    max_length: int,
    rule: Rule,
) -> Iterator[Fitted[Example]]:
    """Turn each record into one example, or several where a long text is read in windows."""
    index = {label: number for number, label in enumerate(labels)}
    records, copies = tee(records)
    texts = (text_of(record) for record in copies)
    fitted = features(texts, tokenizer, max_length=max_length, rule=rule)
    for record, parts in zip(records, fitted, strict=True):
        numbers = targets(record, index, multi_label=multi_label)
        yield replace(parts, pieces=[replace(piece, labels=numbers) for piece in parts.pieces])


def build(
    model: str,
    labels: Sequence[str],
    *,
    multi_label: bool,
    dropout: float | None,
    revision: str | None,
) -> BertForSequenceClassification:
    """Load an encoder, with a fresh classifier unless it has one for the same labels."""
    folder = resolve(model, revision)
    return BertForSequenceClassification.from_pretrained(
        model,
        id2label=dict(enumerate(labels)),
        problem_type="multi_label_classification" if multi_label else "single_label_classification",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        classifier_dropout=dropout,
        revision=revision,
        # A run's classifier for other labels, or for these in another order, would mislead.
        fresh_head=list(BertConfig.read(folder / "config.json").id2label.values()) != list(labels),
    )


def class_weights(
    setting: str | None, labels: Sequence[str], found: Counter[str]
) -> list[float] | None:
    """Read ``--class-weights``: nothing, ``balanced``, or ``label=weight`` pairs with commas.

    ``balanced`` gives each class the same total weight: items / (classes x items of the class).

    Raises:
        UserError: an unknown label, or a weight that is not a number above 0.
    """
    if setting is None:
        return None
    if setting == "balanced":
        total = found.total()
        return [total / (len(labels) * max(1, found[label])) for label in labels]
    weights = dict.fromkeys(labels, 1.0)
    for part in setting.split(","):
        label, equals, number = part.rpartition("=")
        if not equals or label not in weights:
            raise UserError(
                f"--class-weights {part!r}: expected 'balanced' or label=weight with a label of "
                f"the data{did_you_mean(label, labels)}: {', '.join(labels)}"
            )
        try:
            weights[label] = float(number)
        except ValueError:
            weights[label] = 0.0
        if not 0 < weights[label] < float("inf"):
            raise UserError(f"--class-weights {part!r}: the weight must be a number above 0")
    return list(weights.values())


def loss(
    forward: Callable[..., Any], batch: Batch, *, multi_label: bool, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the sum of the batch's losses and the weight to divide it by.

    Args:
        forward: the model, or what calls it.
        batch: with labels.
        multi_label: whether each label is a decision of its own.
        weights: of the classes. Shape (labels,).
    """
    logits = forward(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits
    assert batch.labels is not None
    if multi_label:
        return losses.binary_cross_entropy(logits, batch.labels, class_weights=weights)
    return losses.cross_entropy(logits, batch.labels, class_weights=weights)


def loss_count(batch: Batch, *, multi_label: bool, weights: Tensor | None) -> float:
    """Return what :func:`loss` will divide by, from the labels alone."""
    assert batch.labels is not None
    if multi_label:
        return float(batch.labels.numel())
    if weights is None:
        return float(len(batch.labels))
    return float(weights[batch.labels].sum())


def decode(logits: Tensor, *, multi_label: bool) -> Tensor:
    """Turn logits into probabilities, in fp32.

    Shape:
        (B, labels) to (B, labels): rows sum to 1, or each label stands for itself.
    """
    return logits.float().sigmoid() if multi_label else logits.float().softmax(-1)


def score(labels: Sequence[str], *, multi_label: bool) -> "ClassificationScores":
    """Return empty scores to be fed with probabilities and targets."""
    from heedful.metrics import ClassificationScores

    return ClassificationScores(labels, multi_label=multi_label)


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
