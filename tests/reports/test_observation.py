"""The summary that is kept of many answers."""

from dataclasses import dataclass

import numpy as np

from heedful.item_results import AnswerError, ItemResult, ItemScorer, each
from heedful.metrics import measures
from heedful.reports.observation import SHOWN, Observation


@dataclass(frozen=True)
class Answered:
    confidence: float
    right: bool
    tokens_total: int = 3
    tokens_used: int = 2


def result(answer: Answered, number: int) -> ItemResult:
    return ItemResult(
        where=f"line {number}",
        texts={"text": "x" * (number + 1)},
        truth="a",
        answer="a" if answer.right else "b",
        correct=answer.right,
        score=float(answer.right),
        confidence=answer.confidence,
        statistics=(float(answer.right),),
        decisions=((answer.confidence, answer.right),),
        errors=() if answer.right else (AnswerError(kind="wrong", truth="a", answer="b"),),
    )


def test_few_items_are_kept_and_all_numbers() -> None:
    rng = np.random.default_rng(0)
    answers = [Answered(float(rng.random()), bool(rng.random() < 0.7)) for _ in range(500)]
    observation = Observation(
        ItemScorer(results=each(result), aggregate=measures.means("accuracy"))
    )
    observation.update((answer, number) for number, answer in enumerate(answers))
    wrong = sorted(answer.confidence for answer in answers if not answer.right)

    errors = [item.result.confidence for item in observation.surest_errors]
    assert errors == wrong[: -SHOWN - 1 : -1]
    unsure = [item.result.confidence for item in observation.least_sure]
    assert unsure == sorted(answer.confidence for answer in answers)[:SHOWN]
    assert [item.index for item in observation.first] == list(range(SHOWN))
    assert observation.error_types == {"wrong": len(wrong)}
    assert len(observation.error_examples["wrong"]) == SHOWN
    assert observation.columns.shape == (500, 1)
    assert observation.decisions.shape == (500, 2)
    assert (observation.lengths == [3, 2]).all()


def test_long_items_are_not_explained() -> None:
    answers = [Answered(0.9, False), Answered(0.8, False, tokens_used=300), Answered(0.7, False)]
    observation = Observation(
        ItemScorer(results=each(result), aggregate=measures.means("accuracy"))
    )
    observation.update(zip(answers, (0, 1, 5000), strict=True))
    assert [item.index for item in observation.worth_explaining] == [0]
