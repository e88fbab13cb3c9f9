"""Scores of entities, exact to the character: seqeval counts, this file converts spans for it."""

from collections.abc import Iterable, Sequence
from typing import Any

from heedful.errors import UserError

LabelledSpan = tuple[int, int, str]
"""Start, end and label of an entity, in characters of its text."""


class EntityScores:
    """Collects true and predicted entities of texts and scores them.

    An entity is right if its start, end and label are, as in the CoNLL-2003 shared task (Tjong Kim
    Sang and De Meulder 2003, section 2.4). Its memory grows with the number of texts and entities.
    """

    def __init__(self) -> None:
        self._true: list[list[str]] = []
        self._predicted: list[list[str]] = []

    def update(self, true: Sequence[LabelledSpan], predicted: Sequence[LabelledSpan]) -> None:
        """Count one text; neither the true nor the predicted entities may overlap."""
        # seqeval scores tags of words. The text between one start or end and the next is a word
        # here: entities agree in these words exactly if they agree in characters.
        offsets = sorted({offset for span in (*true, *predicted) for offset in span[:2]})
        words = {offset: index for index, offset in enumerate(offsets)}
        self._true.append(_tags(true, words))
        self._predicted.append(_tags(predicted, words))

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted so far, ready for JSON.

        ``items`` (texts), ``precision``, ``recall`` and ``f1`` over all entities, and
        ``per_class``: ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true entities)
        of each label that occurs, sorted. 0 divided by 0 is 0.

        Raises:
            UserError: nothing was counted.
        """
        # Takes a second to import, so it is imported when something is scored.
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


def _tags(spans: Iterable[LabelledSpan], words: dict[int, int]) -> list[str]:
    """Return the BIO tags of entities; ``words`` has the index of the word at each offset."""
    tags = ["O"] * max(len(words) - 1, 1)  # the library needs a tag even without entities
    for start, end, label in spans:
        first, last = words[start], words[end]
        tags[first:last] = [f"B-{label}", *[f"I-{label}"] * (last - first - 1)]
    return tags


def _named(row: Sequence[Any]) -> dict[str, float]:
    names = ("precision", "recall", "f1")
    return {name: float(value) for name, value in zip(names, row[:3], strict=True)}
