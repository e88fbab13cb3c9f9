"""``heedful evaluate``: a run and records with their truth in, scores out."""

from collections.abc import Iterable, Sequence
from itertools import islice, tee
from pathlib import Path
from typing import Any

from heedful import files
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings
from heedful.tasks import read_files
from heedful.training.progress import counted

METRICS = "metrics.json"
_TOGETHER = 1024


def score_records(predictor: Predictor, records: Iterable[Any]) -> dict[str, Any]:
    """Score a predictor on records of its task, holding only some thousands at a time.

    Raises:
        UserError: there is no record, or one has a truth the model does not know.
    """
    scores = predictor.task.scores(predictor.goal)
    truths, copies = tee(records)
    answers = predictor.answers(copies, labelled=True)
    while chunk := list(islice(answers, _TOGETHER)):
        scores.update(chunk, list(islice(truths, len(chunk))))
    return scores.compute()


def evaluate(
    run: Path, data: Sequence[Path], columns: ColumnSettings, predictor: Predictor
) -> dict[str, Any]:
    """Evaluate a run and write the scores to its ``metrics.json``."""
    records = counted(read_files(predictor.task, data, columns, labelled=True), "items evaluated")
    scores = {"data": [str(path) for path in data], **score_records(predictor, records)}
    files.write_json(run / METRICS, scores)
    return scores
