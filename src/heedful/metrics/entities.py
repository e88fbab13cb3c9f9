"""Scores of entities, exact to the character: seqeval counts, this file hands texts to it."""

from collections.abc import Iterable, Sequence
from typing import Any

from heedful.errors import UserError

Span = tuple[int, int, str]
"""Start, end and label of an entity, in characters of its text."""


class EntityScores:
    """Collects the entities of texts, true and predicted, and gives their scores.

    An entity counts as found if its start, its end and its label are right, as in the CoNLL-2003
    shared task (Tjong Kim Sang and De Meulder 2003, section 2.4). What is kept grows with the
    number of texts and entities.
    """

    def __init__(self) -> None:
        self._true: list[list[str]] = []
        self._predicted: list[list[str]] = []

    def update(self, true: Sequence[Span], predicted: Sequence[Span]) -> None:
        """Count one text; the entities of either do not overlap each other."""
        spans = [*true, *predicted]
        # Two sets of places are the same in characters exactly if they are in segments, which are
        # what lies between one end of any of them and the next.
        segment = {place: at for at, place in enumerate(sorted({p for s in spans for p in s[:2]}))}
        self._true.append(_tags(true, segment))
        self._predicted.append(_tags(predicted, segment))

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        ``items`` (texts), ``precision``, ``recall`` and ``f1`` over all entities, and
        ``per_class``: ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true entities)
        of each label that occurs, sorted. A ratio of nothing to nothing is 0.

        Raises:
            UserError: nothing was counted.
        """
        # Takes a second to import, so that waits until something is scored.
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

        if not self._true:
            raise UserError("no items to score: the data is empty")
        labels = sorted(
            {tag[2:] for tags in (*self._true, *self._predicted) for tag in tags} - {""}
        )
        scores: dict[str, Any] = {"items": len(self._true)}
        overall, each = (
            precision_recall_fscore_support(
                self._true, self._predicted, average=average, zero_division=0
            )
            for average in ("micro", None)
        )
        scores |= _named(overall)
        scores["per_class"] = [
            {"label": label, **_named(row), "support": int(row[3])}
            for label, row in zip(labels, zip(*each, strict=True), strict=True)
        ]
        return scores


def _tags(spans: Iterable[Span], segment: dict[int, int]) -> list[str]:
    """Write entities as BIO tags of segments, the form that seqeval reads."""
    tags = ["O"] * max(len(segment) - 1, 1)  # of no entities the library still wants a tag
    for start, end, label in spans:
        first, last = segment[start], segment[end]
        tags[first:last] = [f"B-{label}", *[f"I-{label}"] * (last - first - 1)]
    return tags


def _named(row: Sequence[Any]) -> dict[str, float]:
    names = ("precision", "recall", "f1")
    return {name: float(value) for name, value in zip(names, row[:3], strict=True)}
