"""Entity scores, exact to the character: spans are converted to tags, which seqeval scores."""

from collections.abc import Iterable, Sequence
from typing import Any

from heedful.errors import UserError

LabelledSpan = tuple[int, int, str]
"""Start, end and label of an entity. Offsets are in characters of the text."""


class EntityScores:
    """Collects true and predicted entities of texts and scores them.

    An entity is correct if its start, end and label all are, as in the CoNLL-2003 shared task
    (Tjong Kim Sang and De Meulder 2003, section 2.4). Memory grows with the number of texts and
    entities.
    """

    def __init__(self) -> None:
        self._true: list[list[str]] = []
        self._predicted: list[list[str]] = []

    def update(self, true: Sequence[LabelledSpan], predicted: Sequence[LabelledSpan]) -> None:
        """Add one text; neither the true nor the predicted entities may overlap."""
        # seqeval scores word tags. Each stretch of text between two adjacent boundaries acts as a
        # word: entities agree in these words exactly if they agree in characters.
        offsets = sorted({offset for span in (*true, *predicted) for offset in span[:2]})
        words = {offset: index for index, offset in enumerate(offsets)}
        self._true.append(_tags(true, words))
        self._predicted.append(_tags(predicted, words))

    def compute(self) -> dict[str, Any]:
        """Return the scores of all texts added so far, ready for JSON.

        ``items`` (texts), ``precision``, ``recall`` and ``f1`` over all entities, and
        ``per_class``: ``label``, ``precision``, ``recall``, ``f1`` and ``support`` (true entities)
        of each label that occurs, sorted. 0 divided by 0 is 0.

        Raises:
            UserError: no text was added.
        """
        # Importing seqeval takes a second, so it is done only here.
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

        if not self._true:
            raise UserError("no items to score: the data is empty")
        labels = sorted(
            {tag[2:] for tags in (*self._true, *self._predicted) for tag in tags} - {""}
        )
        scores: dict[str, Any] = {"items": len(self._true)}
        overall, by_label = (
            precision_recall_fscore_support(
                self._true, self._predicted, average=average, zero_division=0
            )
            for average in ("micro", None)
        )
        scores |= _named(overall)
        scores["per_class"] = [
            {"label": label, **_named(row), "support": int(row[3])}
            for label, row in zip(labels, zip(*by_label, strict=True), strict=True)
        ]
        return scores


def _tags(spans: Iterable[LabelledSpan], words: dict[int, int]) -> list[str]:
    """Return the BIO tags of entities; ``words`` maps each offset to its word index."""
    tags = ["O"] * max(len(words) - 1, 1)  # seqeval needs a tag even without entities
    for start, end, label in spans:
        first, last = words[start], words[end]
        tags[first:last] = [f"B-{label}", *[f"I-{label}"] * (last - first - 1)]
    return tags


def _named(row: Sequence[Any]) -> dict[str, float]:
    names = ("precision", "recall", "f1")
    return {name: float(value) for name, value in zip(names, row[:3], strict=True)}
