"""Judges of numbers, of how alike texts are, and of the search for a text's partner."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from heedful.judging import Judge, Judgement, each
from heedful.metrics import measures
from heedful.metrics.measures import Numbers
from heedful.metrics.neighbours import partners
from heedful.reading import Record
from heedful.tasks.answers.vectors import Embedding
from heedful.tasks.texts import target

if TYPE_CHECKING:
    from heedful.tasks.regress import Estimate


def estimates() -> "Judge[Estimate, Record]":
    """Judge numbers by how far they are from the true ones."""

    def judge(answer: "Estimate", record: Record) -> Judgement:
        truth = target(record)
        return Judgement(
            where=record.where,
            texts=record.texts,
            truth=truth,
            answer=round(answer.value, 6),
            right=None,
            worth=-abs(answer.value - truth),
            confidence=None,
            counts=(answer.value, truth),
        )

    return Judge(judged=each(judge), measure=measures.estimates)


def pairs(scale: tuple[float, float] | None) -> Judge[Embedding, Record]:
    """Judge vectors of pairs: by the pairs' scores if they have some, else by who is nearest.

    For the latter all vectors are kept, since any of them may be nearer.

    Args:
        scale: the scores that were learnt as cosines of 0 and 1, if any were.
    """

    def judged(answered: Iterable[tuple[Embedding, Record]]) -> Iterator[Judgement]:
        answered = iter(answered)
        for first in answered:
            rest = chain([first], answered)
            if first[1].labels is None:
                yield from _partners(rest)
            else:
                yield from (_similarity(answer, record, scale) for answer, record in rest)

    def measure(columns: Numbers, weights: Numbers) -> dict[str, Numbers]:
        if columns.shape[1] == 1:
            return measures.neighbours(columns, weights)
        scores = measures.correlations(columns, weights)
        return {name: scores[name] for name in ("spearman", "pearson")}  # the usual one first

    return Judge(judged=judged, measure=measure)


def _similarity(answer: Embedding, record: Record, scale: tuple[float, float] | None) -> Judgement:
    truth, similarity = target(record), answer.similarity
    assert similarity is not None
    worth = None
    if scale is not None:
        worth = -abs(similarity - (truth - scale[0]) / (scale[1] - scale[0]))
    return Judgement(
        where=record.where,
        texts=record.texts,
        truth=truth,
        answer=round(similarity, 6),
        right=None,
        worth=worth,
        confidence=None,
        counts=(similarity, truth),
    )


def _partners(answered: Iterable[tuple[Embedding, Record]]) -> Iterator[Judgement]:
    queries, right, records = [], [], []
    candidates: dict[str, torch.Tensor] = {}
    numbers: dict[str, int] = {}
    for answer, record in answered:
        text, vector = record.text_pair or "", answer.vector_pair
        assert vector is not None
        queries.append(F.normalize(answer.vector, dim=0))
        candidates.setdefault(text, F.normalize(vector, dim=0))
        right.append(numbers.setdefault(text, len(numbers)))
        records.append(record)
    if not records:
        return
    texts, vectors = list(candidates), torch.stack(list(candidates.values()))  # (M, D)
    for ranked, record in zip(partners(torch.stack(queries), vectors, right), records, strict=True):
        yield Judgement(
            where=record.where,
            texts=record.texts,
            truth=record.text_pair,
            answer=texts[ranked.nearest],
            right=ranked.rank == 1,
            worth=1 / ranked.rank,
            confidence=None,
            counts=(float(ranked.rank),),
        )
