"""Item scorer of entities: which are right, and the type of each error."""

import re
from collections.abc import Mapping, Sequence, Set

from heedful.item_results import AnswerError, ItemResult, ItemScorer, each
from heedful.metrics import measures
from heedful.reading.tagging import TaggedText
from heedful.tasks.answers.entities import Tagging

Span = tuple[int, int, str]
"""Start, end and type of an entity; offsets in characters."""


def entities(types: tuple[str, ...]) -> ItemScorer[Tagging, TaggedText]:
    """Score the entities of texts; their boundaries must match exactly.

    Args:
        types: the entity types of the run.
    """

    def result_of(answer: Tagging, record: TaggedText) -> ItemResult:
        true: list[Span] = [(item.start, item.end, item.label) for item in record.entities or ()]
        scores = {(item.start, item.end, item.label): item.score for item in answer.entities}
        hits = set(true) & scores.keys()
        return ItemResult(
            where=record.where,
            texts={"text": record.text},
            truth=_rows(record.text, true),
            answer=_rows(record.text, list(scores)),
            correct=len(hits) == len(true) == len(scores),
            score=2 * len(hits) / max(len(true) + len(scores), 1) if true or scores else 1.0,
            confidence=min(scores.values(), default=None),
            statistics=(float(len(hits)), float(len(scores)), float(len(true))),
            decisions=tuple((score, span in hits) for span, score in scores.items()),
            errors=tuple(
                AnswerError(
                    kind=kind,
                    truth=None if expected is None else _shown(record.text, expected),
                    answer=None if wrong is None else _shown(record.text, wrong),
                )
                for kind, expected, wrong in mistakes(true, list(scores))
            ),
            explain_target=_doubtful(record.text, scores, hits),
        )

    return ItemScorer(
        results=each(result_of), aggregate=measures.entities, score_name="f1", labels=types
    )


def mistakes(
    true: Sequence[Span], predicted: Sequence[Span]
) -> list[tuple[str, Span | None, Span | None]]:
    """Classify errors; return the true and the predicted entity of each.

    ``type``: right boundaries, wrong type. ``boundary``: right type, overlapping but wrong
    boundaries. ``boundary and type``: both. ``missed`` and ``invented``: only a true or only a
    predicted entity. Each entity is part of at most one error.

    Args:
        true: true entities, which do not overlap.
        predicted: predicted entities, which do not overlap.
    """
    missed = [span for span in true if span not in predicted]
    wrong = [span for span in predicted if span not in true]
    # Most similar pairs first: by boundaries, then by type, then by the length of the overlap.
    candidates = sorted(
        (span[:2] != other[:2], span[2] != other[2], -_common(span, other), span, other)
        for span in missed
        for other in wrong
        if _common(span, other) > 0
    )
    errors: list[tuple[str, Span | None, Span | None]] = []
    for wrong_boundary, wrong_type, _, span, other in candidates:
        if span in missed and other in wrong:
            missed.remove(span)
            wrong.remove(other)
            kind = " and ".join(["boundary"] * wrong_boundary + ["type"] * wrong_type)
            errors.append((kind, span, other))
    errors += [("missed", span, None) for span in missed]
    return errors + [("invented", None, span) for span in wrong]


def _doubtful(text: str, scores: Mapping[Span, float], hits: Set[Span]) -> str | None:
    """Name the most confident wrong entity, else the least confident one; skip ambiguous names."""
    wrong = sorted((span for span in scores if span not in hits), key=lambda span: -scores[span])
    ranked = wrong or sorted(scores, key=scores.__getitem__)
    names = (_name(text, start, end) for start, end, _ in ranked)
    return next((name for name in names if name is not None), None)


def _name(text: str, start: int, end: int) -> str | None:
    """Return the shortest run of words at an entity's start whose first occurrence is there."""
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    ends = [start + len(text[start:end].split()[0]), *(stop for stop in ends if stop > start)]
    names = (text[start:stop] for stop in ends)
    return next((name for name in names if text.find(name) == start), None)


def _common(first: Span, second: Span) -> int:
    return min(first[1], second[1]) - max(first[0], second[0])


def _rows(text: str, spans: Sequence[Span]) -> list[dict[str, str | int]]:
    return [
        {"label": label, "start": start, "end": end, "text": text[start:end]}
        for start, end, label in spans
    ]


def _shown(text: str, span: Span) -> str:
    return f"{text[span[0] : span[1]]} ({span[2]})"
