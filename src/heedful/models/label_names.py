"""The names of a classifier's outputs, as mappings in both directions."""

from collections.abc import Mapping
from typing import Any

from heedful.errors import UserError


def read_labels(values: Mapping[str, Any], where: str) -> dict[int, str]:
    """Merge ``id2label`` and ``label2id`` of a ``config.json``, which must agree.

    Args:
        values: keys and values of the file.
        where: source of the values, for error messages.

    Raises:
        UserError: they do not map numbers to names and back, or they differ.
    """
    by_id, by_label = values.get("id2label"), values.get("label2id")
    try:
        labels = {int(number): str(label) for number, label in (by_id or {}).items()}
        inverse = {int(number): str(label) for label, number in (by_label or {}).items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise UserError(
            f'{where}: id2label must be like {{"0": "name"}}, and label2id like {{"name": 0}}'
        ) from None
    if labels and inverse and labels != inverse:
        differing = (n for n in sorted({*labels, *inverse}) if labels.get(n) != inverse.get(n))
        number = next(differing)
        raise UserError(
            f"{where}: id2label and label2id differ: {number} is {labels.get(number)!r} in the one "
            f"and {inverse.get(number)!r} in the other"
        )
    return labels or inverse


def merge_labels(
    id2label: Mapping[int, str] | None, label2id: Mapping[str, int] | None, where: str
) -> Mapping[int, str] | None:
    """Return the labels that two mappings name, which must agree.

    Args:
        id2label: name of each output.
        label2id: output of each name.
        where: source of the mappings, for error messages.

    Raises:
        UserError: they differ.
    """
    if label2id is None:
        return id2label
    return read_labels({"id2label": id2label, "label2id": label2id}, where)
