"""The labels of a classifier: their order and their weights, and labels that look like mistakes."""

import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from decimal import Decimal
from unicodedata import normalize

from heedful.errors import UserError, did_you_mean, join_names
from heedful.reading.delimited import split_values

_NO_WIDTH = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")
_MAX_GRADES = 20
"""Maximum number of grades with fractions, such as 3.5 stars, that are usual for classes."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?", re.ASCII | re.IGNORECASE)


def order_labels(
    counts: Counter[str], order: Sequence[str] | None, *, multi_label: bool
) -> tuple[str, ...]:
    """Order the labels: as given, else numerically if all are numbers, else alphabetically.

    Raises:
        UserError: there are too few labels, the data has a label that was not given, or a given
            label is empty or repeated.
    """
    if order is not None:
        labels = list(order)
        if not all(map(str.strip, labels)):
            raise UserError("--labels has an empty label; check its commas")
        _refuse_repeated("--labels", labels)
        if unlisted := sorted(set(counts) - set(labels)):
            raise UserError(
                f"label {unlisted[0]!r} in the training data is not among --labels"
                f"{did_you_mean(unlisted[0], labels)}: {join_names(labels)}"
            )
    elif all(map(_NUMBER.fullmatch, counts)):
        labels = sorted(counts, key=Decimal)  # unlike int, not limited in length
    else:
        labels = sorted(counts)
    min_labels = 1 if multi_label else 2
    if len(labels) < min_labels:
        only = f"only {labels[0]!r}" if labels else "none"
        raise UserError(f"at least 2 different labels are needed; the training data has {only}")
    return tuple(labels)


def stripped(label: str, known_labels: Container[str]) -> str:
    """Return a label stripped of spaces, unless the data has it with them."""
    return label if label in known_labels else label.strip()


def lookalike_labels(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of labels that differ only in case, spacing or quotes, or are the same number.

    A CSV file with a space before a quote keeps the quotes in the value: ``a text, "label"``.
    """
    seen: dict[str | Decimal, str] = {}
    for label in labels:
        key = " ".join(_NO_WIDTH.sub("", normalize("NFKC", label.casefold())).split()).strip('"')
        first = seen.setdefault(Decimal(key) if _NUMBER.fullmatch(key) else key, label)
        if first != label:
            yield first, label


def are_measurements(labels: Sequence[str]) -> bool:
    """Return whether labels look like the values of a measurement, such as a price."""
    if len(labels) <= _MAX_GRADES or not all(map(_NUMBER.fullmatch, labels)):
        return False
    return any(math.isfinite(number) and number % 1 for number in map(float, labels))


def class_weights(
    setting: str | None,
    labels: Sequence[str],
    counts: Counter[str],
    num_items: int | None = None,
) -> tuple[float, ...] | None:
    """Parse ``--class-weights``: None, ``balanced``, or comma-separated ``label=weight`` pairs.

    ``balanced`` gives each class the same total weight: items / (classes x items of the class). If
    an item may have any number of labels, the items with a label get the same total weight as the
    items without it: items without it / items with it.

    Args:
        setting: the value of the option.
        labels: the labels, in the order of the weights.
        counts: number of training items with each label.
        num_items: number of training items if an item may have any number of labels, else None.

    Raises:
        UserError: a label is unknown or repeated, or a weight is not a number above 0.
    """
    if setting is None:
        return None
    if setting == "balanced":
        # A label that no item has counts as that of one item, and one of all as missing once.
        at_least_one = [max(1, counts[label]) for label in labels]
        if num_items is not None:
            return tuple(max(1, num_items - count) / count for count in at_least_one)
        return tuple(counts.total() / (len(labels) * count) for count in at_least_one)
    weights, named = dict.fromkeys(labels, 1.0), list[str]()
    for part in split_values("--class-weights", setting):
        label, equals, weight = part.rpartition("=")
        label = stripped(label, weights)
        if not equals or label not in weights:
            raise UserError(
                f"--class-weights {part!r}: expected 'balanced' or label=weight with a label of "
                f"the data{did_you_mean(label, labels)}: {join_names(labels)}"
            )
        named.append(label)
        try:
            weights[label] = float(weight)
        except ValueError:
            weights[label] = 0.0
        if not 0 < weights[label] < float("inf"):
            raise UserError(f"--class-weights {part!r}: the weight must be a number above 0")
    _refuse_repeated("--class-weights", named)
    return tuple(weights.values())


def _refuse_repeated(option: str, labels: Sequence[str]) -> None:
    for label, times in Counter(labels).items():
        if times > 1:
            raise UserError(f"{option} names {label!r} {times} times")
