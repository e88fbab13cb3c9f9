"""Item scorers of predicted numbers, text similarity, and retrieval of a text's partner."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from heedful.item_results import ItemResult, ItemScorer, each, six_digits
from heedful.metrics import measures
from heedful.metrics.measures import Statistics
from heedful.metrics.neighbours import rank_candidates
from heedful.reading import Record
from heedful.tasks.answers.vectors import Embedding
from heedful.tasks.texts import target

if TYPE_CHECKING:
    from heedful.tasks.regress import Estimate


def estimates() -> "ItemScorer[Estimate, Record]":
    """Score numbers by their distance to the true ones."""

    def result_of(answer: "Estimate", record: Record) -> ItemResult:
        truth = target(record)
        return ItemResult(
            where=record.where,
            texts=record.texts,
            truth=truth,
            answer=six_digits(answer.value),
            correct=None,
            score=-abs(answer.value - truth),
            confidence=None,
            statistics=(answer.value, truth),
        )

    return ItemScorer(results=each(result_of), aggregate=measures.estimates)


def pairs(scale: tuple[float, float] | None) -> ItemScorer[Embedding, Record]:
    """Score embeddings of pairs: by similarity for scored pairs, else by retrieval of the partner.

    Retrieval keeps all embeddings in memory, since any text may be the nearest.

    Args:
        scale: the scores that map to cosines of 0 and 1, if trained on scored pairs.
    """

    def results(answered: Iterable[tuple[Embedding, Record]]) -> Iterator[ItemResult]:
        answered = iter(answered)
        for first in answered:
            items = chain([first], answered)
            if first[1].labels is None:
                yield from _partners(items)
            else:
                yield from (_similarity(answer, record, scale) for answer, record in items)

    def measure(columns: Statistics, weights: Statistics) -> dict[str, Statistics]:
        if columns.shape[1] == 1:
            return measures.neighbours(columns, weights)
        scores = measures.correlations(columns, weights)
        return {name: scores[name] for name in ("spearman", "pearson")}  # the default metric first

    return ItemScorer(results=results, aggregate=measure)


def _similarity(answer: Embedding, record: Record, scale: tuple[float, float] | None) -> ItemResult:
    truth, similarity = target(record), answer.similarity
    assert similarity is not None
    score = None
    if scale is not None:
        score = -abs(similarity - (truth - scale[0]) / (scale[1] - scale[0]))
    return ItemResult(
        where=record.where,
        texts=record.texts,
        truth=truth,
        answer=round(similarity, 6),
        correct=None,
        score=score,
        confidence=None,
        statistics=(similarity, truth),
    )


def _partners(answered: Iterable[tuple[Embedding, Record]]) -> Iterator[ItemResult]:
    queries, truth, records = [], [], []
    candidates: dict[str, torch.Tensor] = {}
    indices: dict[str, int] = {}
    for answer, record in answered:
        text, vector = record.text_pair or "", answer.vector_pair
        assert vector is not None
        queries.append(F.normalize(answer.vector, dim=0))
        candidates.setdefault(text, F.normalize(vector, dim=0))
        truth.append(indices.setdefault(text, len(indices)))
        records.append(record)
    if not records:
        return
    texts, vectors = list(candidates), torch.stack(list(candidates.values()))  # (M, D)
    for ranked, record in zip(
        rank_candidates(torch.stack(queries), vectors, truth), records, strict=True
    ):
        yield ItemResult(
            where=record.where,
            texts=record.texts,
            truth=record.text_pair,
            answer=texts[ranked.nearest],
            correct=ranked.rank == 1,
            score=1 / ranked.rank,
            confidence=None,
            statistics=(float(ranked.rank),),
        )
