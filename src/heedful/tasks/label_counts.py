"""What a classifier takes from the label counts of its training data."""

import math
from collections import Counter
from collections.abc import Container, Sequence

from heedful.errors import UserError, did_you_mean, join_names
from heedful.reading.delimited import split_values


def class_weights(
    setting: str | None, labels: Sequence[str], counts: Counter[str]
) -> tuple[float, ...] | None:
    """Parse ``--class-weights``: None, ``balanced``, or comma-separated ``label=weight`` pairs.

    ``balanced`` gives each class the same total weight: items / (classes x items of the class).

    Raises:
        UserError: a label is unknown, or a weight is not a number above 0.
    """
    if setting is None:
        return None
    if setting == "balanced":
        total = counts.total()
        return tuple(total / (len(labels) * max(1, counts[label])) for label in labels)
    weights = dict.fromkeys(labels, 1.0)
    for part in split_values("--class-weights", setting):
        label, equals, weight = part.rpartition("=")
        label = stripped(label, weights)
        if not equals or label not in weights:
            raise UserError(
                f"--class-weights {part!r}: expected 'balanced' or label=weight with a label of "
                f"the data{did_you_mean(label, labels)}: {join_names(labels)}"
            )
        try:
            weights[label] = float(weight)
        except ValueError:
            weights[label] = 0.0
        if not 0 < weights[label] < float("inf"):
            raise UserError(f"--class-weights {part!r}: the weight must be a number above 0")
    return tuple(weights.values())


def bias_of_counts(
    counts: Sequence[int], weights: Sequence[float] | None, num_items: int | None
) -> tuple[float, ...]:
    """Return the logits, the same for all items, with the lowest loss on the training data.

    A label that no item has counts as that of one item, and one of all items as missing once.

    Args:
        counts: number of training items with each label.
        weights: weight of each label in the loss.
        num_items: number of training items if an item may have any number of labels, else None.
    """
    at_least_one = [max(1, count) for count in counts]
    if num_items is not None:  # a label's weight is the same whether an item has it or not
        return tuple(math.log(count / max(1, num_items - count)) for count in at_least_one)
    weighed = [w * n for w, n in zip(weights or [1.0] * len(counts), at_least_one, strict=True)]
    mean = math.fsum(weighed) / len(weighed)
    return tuple(math.log(one / mean) for one in weighed)


def stripped(label: str, known_labels: Container[str]) -> str:
    """Return a label stripped of spaces, unless the data has it with them."""
    return label if label in known_labels else label.strip()
