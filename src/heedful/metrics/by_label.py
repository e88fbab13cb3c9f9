"""Scores of single labels, and of mistakes between two labels: what is stored, and what is shown.

Shapes: C classes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.metrics.counts import Counts

LARGEST_CONFUSION = 200
"""Most labels for a whole confusion matrix to be stored; above it, only cells that are not 0."""
MOST_LABELS = 40
"""Maximum number of labels whose scores are shown."""
_FEWEST_FOR_WARNING = 20
"""Fewest items of which one label for all is unlikely to be right."""
BY_LABEL = ("per_class", "confusion", "confusion_cells")
"""Keys of the scores that grow with the number of labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """A label that was predicted in place of another."""

    true: str
    predicted: str
    items: int
    share: float
    """Share of the items of the true label."""


def confusion_scores(counts: Counts, labels: list[str]) -> dict[str, Any]:
    """Return the confusion matrix as ``confusion``, or its cells above 0 as ``confusion_cells``.

    A matrix, (C, C), has a row for each true label. The matrix of 5,000 labels would have 25
    million cells, nearly all of them 0.

    Args:
        counts: the number of items of each pair of labels.
        labels: the labels.
    """
    if len(labels) <= LARGEST_CONFUSION:
        matrix = np.zeros((len(labels), len(labels)), np.int64)
        matrix[counts.true, counts.predicted] = counts.number
        return {"confusion": matrix.tolist()}
    columns = (column.tolist() for column in (counts.true, counts.predicted, counts.number))
    return {
        "confusion_cells": [
            {"true": labels[true], "predicted": labels[predicted], "items": items}
            for true, predicted, items in zip(*columns, strict=True)
        ]
    }


def has_confusion(scores: Mapping[str, Any]) -> bool:
    """Return whether scores have a confusion matrix, whole or as cells."""
    return "confusion" in scores or "confusion_cells" in scores


def mistakes_of(scores: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes of a confusion matrix, the most frequent first.

    Args:
        scores: scores with a confusion matrix.
    """
    support = {row["label"]: row["support"] for row in scores["per_class"]}
    mistakes = [
        Mistake(**cell, share=cell["items"] / support[cell["true"]])
        for cell in _cells(scores)
        if cell["true"] != cell["predicted"]
    ]
    return sorted(mistakes, key=lambda mistake: -mistake.items)  # stable: then in label order


def one_label_warning(scores: Mapping[str, Any]) -> str | None:
    """Return a warning if all items get the same label although many have another, else None."""
    cells = list(_cells(scores)) if has_confusion(scores) else []
    true, predicted = ({cell[side] for cell in cells} for side in ("true", "predicted"))
    items = sum(cell["items"] for cell in cells)
    if items < _FEWEST_FOR_WARNING or len(predicted) > 1 or len(true) == 1:
        return None
    (label,) = predicted
    right = sum(cell["items"] for cell in cells if cell["true"] == label)
    return (
        f"each of the {items:,} items gets the label {label!r}, which {right:,} have: the model "
        "has not learned to tell the labels apart"
    )


def _cells(scores: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells of a confusion matrix above 0."""
    return _cells_of_matrix(scores) if "confusion" in scores else iter(scores["confusion_cells"])


def _cells_of_matrix(scores: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    labels = [row["label"] for row in scores["per_class"]]
    for true, row in zip(labels, scores["confusion"], strict=True):
        for predicted, items in zip(labels, row, strict=True):
            if items:
                yield {"true": true, "predicted": predicted, "items": items}


def shown_labels(scores: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the scores of the labels to show, and the number of labels left out.

    Of many labels, those with the lowest F1 are shown, the most frequent first.

    Args:
        scores: scores with ``per_class``, or without it if there are no labels.
    """
    rows = scores.get("per_class", [])
    if len(rows) <= MOST_LABELS:
        return rows, 0
    worst = sorted(rows, key=lambda row: (row["f1"], -row["support"]))
    return worst[:MOST_LABELS], len(rows) - MOST_LABELS
