"""Item scorers of texts: generated texts against references, and the likelihood of given texts."""

from collections.abc import Mapping
from typing import Any

from heedful.item_results import ItemResult, ItemScorer, each
from heedful.metrics import measures
from heedful.metrics.generation import score_of_statistics, text_metrics, text_statistics
from heedful.reading import Record
from heedful.tasks.answers.generated import Generation
from heedful.tasks.answers.replaced import ReplacedCounts
from heedful.tasks.answers.sequences import MaskedCounts, NextTokenCounts
from heedful.tasks.answers.translations import Translation


def generated(
    *, cased: bool, translated: bool, bleu_tokenize: str = "13a"
) -> ItemScorer[Any, Record]:
    """Score generated texts against references, each by its chrF.

    Args:
        cased: whether scores are case-sensitive.
        translated: whether the reference is the record's second text instead of its label.
        bleu_tokenize: sacreBLEU tokenizer.
    """
    metrics = text_metrics(cased=cased, tokenize=bleu_tokenize)
    names = list(metrics)
    sizes = [len(row) for row in _statistics(metrics, "", "")]

    def result_of(answer: Generation | Translation, record: Record) -> ItemResult:
        truth = record.text_pair if translated else (record.labels or ("",))[0]
        rows = _statistics(metrics, answer.text, truth or "")
        return ItemResult(
            where=record.where,
            texts={"text": record.text},
            truth=truth,
            answer=answer.text,
            correct=None,
            score=score_of_statistics(metrics["chrf"], rows[names.index("chrf")]),
            confidence=None,
            statistics=(
                *(answer.log_likelihood, float(answer.tokens_known)),
                *(float(number) for row in rows for number in row),
            ),
        )

    measure = measures.both(measures.likelihood, measures.texts(metrics, sizes), at=2)
    return ItemScorer(
        results=each(result_of), aggregate=measure, score_name="chrf", text_metrics=metrics
    )


def _statistics(metrics: Mapping[str, Any], text: str, reference: str) -> list[list[int]]:
    return [text_statistics(metric, text, reference) for metric in metrics.values()]


def continued() -> ItemScorer[Generation, Record]:
    """Score the likelihood of plain texts, each by the mean log-probability of its tokens."""

    def result_of(answer: Generation, record: Record) -> ItemResult:
        return ItemResult(
            where=record.where,
            texts={"text": record.text},
            truth=None,
            answer=None,
            correct=None,
            score=answer.log_likelihood / max(answer.tokens_known, 1),
            confidence=None,
            statistics=(answer.log_likelihood, float(answer.tokens_known)),
        )

    return ItemScorer(
        results=each(result_of), aggregate=measures.likelihood, score_name="log_likelihood"
    )


def replaced_tokens() -> ItemScorer[ReplacedCounts, object]:
    """Score the detection of replaced tokens in sequences."""

    def result_of(answer: ReplacedCounts, record: object) -> ItemResult:
        filled = answer.filled
        return ItemResult(
            where="",
            texts={"text": filled.text},
            truth=f"{answer.replaced} of {answer.tokens} replaced",
            answer=f"{answer.flagged} look replaced, {answer.caught} of them correctly",
            correct=None,
            score=answer.correct / max(answer.tokens, 1),
            confidence=None,
            statistics=(
                *(filled.loss, float(filled.correct), float(filled.masked)),
                *(float(answer.tokens), float(answer.correct), float(answer.replaced)),
                *(float(answer.flagged), float(answer.caught)),
            ),
        )

    measure = measures.both(measures.masked_tokens, measures.detections, at=3)
    return ItemScorer(results=each(result_of), aggregate=measure, score_name="rtd_accuracy")


def next_tokens() -> ItemScorer[NextTokenCounts, object]:
    """Score the prediction of each token of a sequence from the tokens before it."""

    def result_of(answer: NextTokenCounts, record: object) -> ItemResult:
        return ItemResult(
            where="",
            texts={"text": answer.text},
            truth=f"{answer.predicted} to predict",
            answer=f"{answer.correct} correct",
            correct=None,
            score=-answer.loss / max(answer.predicted, 1),
            confidence=None,
            statistics=(answer.loss, float(answer.correct), float(answer.predicted)),
        )

    return ItemScorer(
        results=each(result_of), aggregate=measures.next_tokens, score_name="log_likelihood"
    )


def masked_tokens(pair_metric: str | None = None) -> ItemScorer[MaskedCounts, object]:
    """Score the prediction of the masked tokens of sequences.

    Args:
        pair_metric: name of the accuracy on pairs; None for no pairs.
    """

    def result_of(answer: MaskedCounts, record: object) -> ItemResult:
        pair = () if answer.pair_correct is None else (float(answer.pair_correct),)
        return ItemResult(
            where="",
            texts={"text": answer.text},
            truth=f"{answer.masked} masked",
            answer=f"{answer.correct} correct",
            correct=None,
            score=-answer.loss / max(answer.masked, 1),
            confidence=None,
            statistics=(answer.loss, float(answer.correct), float(answer.masked), *pair),
        )

    measure: measures.Measure = measures.masked_tokens
    if pair_metric is not None:
        measure = measures.both(measure, measures.means(pair_metric), at=3)
    return ItemScorer(results=each(result_of), aggregate=measure, score_name="log_likelihood")
