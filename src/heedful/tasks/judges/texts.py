"""Judges of texts: generated texts against references, and the likelihood of given texts."""

from collections.abc import Mapping
from typing import Any

from heedful.judging import Judge, Judgement, each
from heedful.metrics import measures
from heedful.metrics.generation import score_of_statistics, text_metrics, text_statistics
from heedful.reading import Record
from heedful.tasks.answers.generated import Generation
from heedful.tasks.answers.replaced import ScoredReplaced
from heedful.tasks.answers.sequences import Followed, Scored
from heedful.tasks.answers.translations import Translation


def generated(*, cased: bool, translated: bool, bleu_tokenize: str = "13a") -> Judge[Any, Record]:
    """Judge generated texts against references, each by its chrF.

    Args:
        cased: whether scores are case-sensitive.
        translated: whether the reference is the record's second text instead of its label.
        bleu_tokenize: sacreBLEU tokenizer.
    """
    metrics = text_metrics(cased=cased, tokenize=bleu_tokenize)
    names = list(metrics)
    sizes = [len(row) for row in _statistics(metrics, "", "")]

    def judge(answer: Generation | Translation, record: Record) -> Judgement:
        truth = record.text_pair if translated else (record.labels or ("",))[0]
        rows = _statistics(metrics, answer.text, truth or "")
        return Judgement(
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
    return Judge(judged=each(judge), aggregate=measure, score_name="chrf", text_metrics=metrics)


def _statistics(metrics: Mapping[str, Any], text: str, reference: str) -> list[list[int]]:
    return [text_statistics(metric, text, reference) for metric in metrics.values()]


def continued() -> Judge[Generation, Record]:
    """Judge the likelihood of plain texts, each by the mean log-probability of its tokens."""

    def judge(answer: Generation, record: Record) -> Judgement:
        return Judgement(
            where=record.where,
            texts={"text": record.text},
            truth=None,
            answer=None,
            correct=None,
            score=answer.log_likelihood / max(answer.tokens_known, 1),
            confidence=None,
            statistics=(answer.log_likelihood, float(answer.tokens_known)),
        )

    return Judge(judged=each(judge), aggregate=measures.likelihood, score_name="log_likelihood")


def replaced_tokens() -> Judge[ScoredReplaced, object]:
    """Judge the detection of replaced tokens in sequences."""

    def judge(answer: ScoredReplaced, record: object) -> Judgement:
        filled = answer.filled
        return Judgement(
            where="",
            texts={"text": filled.text},
            truth=f"{answer.replaced} of {answer.tokens} replaced",
            answer=f"{answer.flagged} look replaced, {answer.caught} of them correctly",
            correct=None,
            score=answer.right / max(answer.tokens, 1),
            confidence=None,
            statistics=(
                *(filled.loss, float(filled.right), float(filled.hidden)),
                *(float(answer.tokens), float(answer.right), float(answer.replaced)),
                *(float(answer.flagged), float(answer.caught)),
            ),
        )

    measure = measures.both(measures.masked_tokens, measures.detections, at=3)
    return Judge(judged=each(judge), aggregate=measure, score_name="rtd_accuracy")


def followed() -> Judge[Followed, object]:
    """Judge the prediction of each token of a sequence from the tokens before it."""

    def judge(answer: Followed, record: object) -> Judgement:
        return Judgement(
            where="",
            texts={"text": answer.text},
            truth=f"{answer.told} to predict",
            answer=f"{answer.right} correct",
            correct=None,
            score=-answer.loss / max(answer.told, 1),
            confidence=None,
            statistics=(answer.loss, float(answer.right), float(answer.told)),
        )

    return Judge(judged=each(judge), aggregate=measures.next_tokens, score_name="log_likelihood")


def sequences(pair_metric: str | None = None) -> Judge[Scored, object]:
    """Judge the prediction of the masked tokens of sequences.

    Args:
        pair_metric: name of the accuracy on pairs; None for no pairs.
    """

    def judge(answer: Scored, record: object) -> Judgement:
        pair = () if answer.pair_right is None else (float(answer.pair_right),)
        return Judgement(
            where="",
            texts={"text": answer.text},
            truth=f"{answer.hidden} masked",
            answer=f"{answer.right} correct",
            correct=None,
            score=-answer.loss / max(answer.hidden, 1),
            confidence=None,
            statistics=(answer.loss, float(answer.right), float(answer.hidden), *pair),
        )

    measure: measures.Measure = measures.masked_tokens
    if pair_metric is not None:
        measure = measures.both(measure, measures.means(pair_metric), at=3)
    return Judge(judged=each(judge), aggregate=measure, score_name="log_likelihood")
