"""For every task, the statistics of its items give the scores of the task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden.copies import LATEST, ONE_OF_EACH

from heedful import evaluation
from heedful.commands.evaluate import labelled_records
from heedful.evaluation import Evaluation
from heedful.item_results import ItemResult, score_items
from heedful.metrics import ClassificationScores
from heedful.metrics.resampling import point_estimates
from heedful.predictor import Predictor
from heedful.settings import TASKS, ColumnSettings, PredictSettings

COLUMNS = {"--label-separator": "label_separator", "--text-pair": "text_pair"}


def results_of(
    name: str, **settings: Any
) -> tuple[dict[str, float], dict[str, Any], list[ItemResult]]:
    """Return the item scorer of a golden run's data, the scores, and the item results."""
    _, _, *words = ONE_OF_EACH[name]
    at = next((at for at, word in enumerate(words) if word in COLUMNS), len(words))
    columns = ColumnSettings(**{COLUMNS[words[at]]: words[at + 1]} if words[at:] else {})
    predictor = Predictor.load(LATEST / name, PredictSettings(**settings))
    data = [LATEST / Path(word) for word in words[:at]]
    scorer = predictor.task.item_scorer()
    with labelled_records(predictor, data, columns, print) as records:
        scored = Evaluation(predictor, records)
        results = [item.result for item in score_items(scorer, scored)]
        scores = scored.scores()
    counts = np.array([result.statistics for result in results])
    return point_estimates(scorer.aggregate, counts), scores, results


def test_all_tasks_are_here() -> None:
    tasks = {Predictor.load(LATEST / name).task.name for name in ONE_OF_EACH}
    assert tasks == set(TASKS)


def test_answers_are_scored_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, scores, results = results_of("classify")
    monkeypatch.setattr(evaluation, "_ANSWERS_AT_ONCE", 2)
    sizes, update = [], ClassificationScores.update

    def noting(self: ClassificationScores, probabilities: Any, *others: Any) -> None:
        sizes.append(len(probabilities))
        update(self, probabilities, *others)

    monkeypatch.setattr(ClassificationScores, "update", noting)
    _, found, others = results_of("classify")
    assert max(sizes) == 2
    assert sum(sizes) == len(results)
    for name in ("items", "accuracy", "macro_f1", "ece"):
        assert found[name] == pytest.approx(scores[name])
    assert [one.truth for one in others] == [one.truth for one in results]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_measures_are_the_scores_of_the_task(name: str) -> None:
    # A short search, or a text cut short, makes mistakes.
    writes = name in ("translate", "separate", "gru", "lstm", "marian", "replies")
    measured, scores, results = results_of(
        name, **({"beam": 1, "max_new_tokens": 4} if writes else {"long_text": "window"})
    )
    assert measured
    for key, value in measured.items():
        assert value == pytest.approx(scores[key], abs=2e-5), key
    if name != "writer":
        assert len(results) == scores["items"]
