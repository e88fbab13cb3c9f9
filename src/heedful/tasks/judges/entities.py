"""Judges of entities: which are right, and what kind of mistake each wrong one is."""

import re
from collections.abc import Mapping, Sequence, Set

from heedful.judging import Fault, Judge, Judgement, each
from heedful.metrics import measures
from heedful.reading.tagging import TaggedText
from heedful.tasks.answers.entities import Tagging

Span = tuple[int, int, str]
"""Start, end and type of an entity, in characters."""


def entities(types: tuple[str, ...]) -> Judge[Tagging, TaggedText]:
    """Judge the entities of texts, exact to the character.

    Args:
        types: those that the run knows.
    """

    def judge(answer: Tagging, record: TaggedText) -> Judgement:
        true: list[Span] = [(one.start, one.end, one.label) for one in record.entities or ()]
        scores = {(one.start, one.end, one.label): one.score for one in answer.entities}
        hits = set(true) & scores.keys()
        return Judgement(
            where=record.where,
            texts={"text": record.text},
            truth=_rows(record.text, true),
            answer=_rows(record.text, list(scores)),
            right=len(hits) == len(true) == len(scores),
            worth=2 * len(hits) / max(len(true) + len(scores), 1) if true or scores else 1.0,
            confidence=min(scores.values(), default=None),
            counts=(float(len(hits)), float(len(scores)), float(len(true))),
            decisions=tuple((score, span in hits) for span, score in scores.items()),
            faults=tuple(
                Fault(
                    kind=kind,
                    truth=None if right is None else _shown(record.text, right),
                    answer=None if wrong is None else _shown(record.text, wrong),
                )
                for kind, right, wrong in mistakes(true, list(scores))
            ),
            doubtful=_doubtful(record.text, scores, hits),
        )

    return Judge(judged=each(judge), measure=measures.entities, worth="f1", labels=types)


def mistakes(
    true: Sequence[Span], predicted: Sequence[Span]
) -> list[tuple[str, Span | None, Span | None]]:
    """Tell the kinds of mistakes apart, each with the true and the predicted entity.

    ``type``: the right characters under another type. ``boundary``: the right type over other
    characters that share some. ``boundary and type``: both. ``missed`` and ``invented``: nothing
    was predicted there, or nothing is there. Each entity is part of at most one mistake.

    Args:
        true: entities that do not overlap.
        predicted: the same.
    """
    left = [span for span in true if span not in predicted]
    wrong = [span for span in predicted if span not in true]
    # The likest first: the same characters, then the same type, then the longest common part.
    near = sorted(
        (span[:2] != other[:2], span[2] != other[2], -_common(span, other), span, other)
        for span in left
        for other in wrong
        if _common(span, other) > 0
    )
    result: list[tuple[str, Span | None, Span | None]] = []
    for moved, renamed, _, span, other in near:
        if span in left and other in wrong:
            left.remove(span)
            wrong.remove(other)
            kind = " and ".join(["boundary"] * moved + ["type"] * renamed)
            result.append((kind, span, other))
    result += [("missed", span, None) for span in left]
    return result + [("invented", None, span) for span in wrong]


def _doubtful(text: str, scores: Mapping[Span, float], hits: Set[Span]) -> str | None:
    """Name the surest wrong entity, or else the least sure one, that can be told from others."""
    wrong = sorted((span for span in scores if span not in hits), key=lambda span: -scores[span])
    order = wrong or sorted(scores, key=scores.__getitem__)
    names = (_name(text, start, end) for start, end, _ in order)
    return next((name for name in names if name is not None), None)


def _name(text: str, start: int, end: int) -> str | None:
    """Return the first word of an entity, and those after it that tell it from one before."""
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
