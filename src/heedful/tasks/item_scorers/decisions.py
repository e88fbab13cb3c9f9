"""Item scorers of answers that are right or wrong: labels, choices, answers to questions."""

from typing import TYPE_CHECKING

from heedful.item_results import ItemResult, ItemScorer, each
from heedful.metrics import measures
from heedful.metrics.answers import compare
from heedful.reading import Record
from heedful.reading.choices import Choices
from heedful.reading.images import ImageRecord
from heedful.reading.squad import Question
from heedful.scripts import is_unspaced
from heedful.tasks.answers.candidates import SpanAnswer

if TYPE_CHECKING:
    from heedful.tasks.answers.labels import Prediction
    from heedful.tasks.choose import Choice


def one_label(labels: tuple[str, ...]) -> "ItemScorer[Prediction, Record | ImageRecord]":
    """Score answers of a single-label classifier."""
    indices = {label: float(index) for index, label in enumerate(labels)}

    def result_of(answer: "Prediction", record: Record | ImageRecord) -> ItemResult:
        assert isinstance(answer.label, str)
        assert answer.score is not None
        (truth,) = record.labels or ("",)
        correct = answer.label == truth
        return ItemResult(
            where=record.where,
            texts=record.texts,
            truth=truth,
            answer=answer.label,
            correct=correct,
            score=float(correct),
            confidence=answer.score,
            statistics=(indices[truth], indices[answer.label], answer.score),
            decisions=((answer.score, correct),),
        )

    return ItemScorer(
        results=each(result_of), aggregate=measures.classes(len(labels)), labels=labels
    )


def several_labels(labels: tuple[str, ...]) -> "ItemScorer[Prediction, Record | ImageRecord]":
    """Score answers of a multi-label classifier, with a separate decision for each label."""

    def result_of(answer: "Prediction", record: Record | ImageRecord) -> ItemResult:
        truth = sorted(set(labels).intersection(record.labels or ()))
        hits = [(label in truth) == (label in answer.label) for label in labels]
        confidences = [max(score, 1 - score) for score in answer.scores.values()]
        return ItemResult(
            where=record.where,
            texts=record.texts,
            truth=truth,
            answer=sorted(answer.label),  # the label order may differ between runs
            correct=all(hits),
            score=sum(hits) / len(hits),
            confidence=min(confidences),
            statistics=(
                *(float(label in truth) for label in labels),
                *(float(label in answer.label) for label in labels),
                float(all(hits)),
            ),
            decisions=tuple(zip(confidences, hits, strict=True)),
        )

    return ItemScorer(
        results=each(result_of),
        aggregate=measures.label_sets(len(labels)),
        score_name="labels_right",
        labels=labels,
    )


def choices() -> "ItemScorer[Choice, Choices]":
    """Score choices."""

    def result_of(answer: "Choice", record: Choices) -> ItemResult:
        assert record.answer is not None
        correct = answer.choice == record.answer
        return ItemResult(
            where=record.where,
            texts={"question": record.question, "choices": record.choices},
            truth=record.choices[record.answer],
            answer=answer.text,
            correct=correct,
            score=float(correct),
            confidence=answer.score,
            statistics=(float(correct),),
            decisions=((answer.score, correct),),
        )

    return ItemScorer(results=each(result_of), aggregate=measures.means("accuracy"))


def spans(*, no_answer: bool) -> ItemScorer[SpanAnswer, Question]:
    """Score answers to questions by the metrics of SQuAD or CMRC 2018.

    Args:
        no_answer: whether the model may give no answer even if no threshold is given.
    """

    def result_of(answer: SpanAnswer, record: Question) -> ItemResult:
        truth = list(dict.fromkeys(one.text for one in record.answers or ()))
        exact, f1 = compare(
            answer.answer or "",
            truth,
            unspaced=is_unspaced(record.context),
            no_answer=no_answer or answer.margin is not None,
        )
        return ItemResult(
            where=record.where,
            texts={"question": record.question, "context": record.context},
            truth=truth,
            answer=answer.answer,
            correct=exact == 1,
            score=f1,
            confidence=answer.score,
            statistics=(exact, f1),
            decisions=((answer.score, exact == 1),),
        )

    return ItemScorer(
        results=each(result_of), aggregate=measures.means("exact_match", "f1"), score_name="f1"
    )
