"""``heedful evaluate``: a run and labelled records in, scores out."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from heedful import files
from heedful.batches import Record, Text
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings
from heedful.tasks import classify
from heedful.training.progress import counted

METRICS = "metrics.json"


def score_records(predictor: Predictor, records: Iterable[Record]) -> dict[str, Any]:
    """Score a predictor on labelled records, holding only some thousands at a time.

    Raises:
        UserError: there is no record, or one has a label the model does not know.
    """
    record = predictor.record
    index = {label: number for number, label in enumerate(record.labels)}
    scores = classify.score(record.labels, multi_label=record.multi_label)
    truths: list[tuple[float, ...]] = []

    def texts() -> Iterator[Text]:
        for item in records:
            truths.append(classify.targets(item, index, multi_label=record.multi_label))
            yield classify.text_of(item)

    for rows in predictor.probabilities(texts()):
        scores.update(
            rows,
            classify.target_tensor(truths, num_labels=len(index), multi_label=record.multi_label),
        )
        truths.clear()
    return scores.compute()


def evaluate(
    run: Path, data: Sequence[Path], columns: ColumnSettings, predictor: Predictor
) -> dict[str, Any]:
    """Evaluate a run and write the scores to its ``metrics.json``."""
    records = counted(classify.read(data, columns.columns(), columns.format), "texts evaluated")
    scores = {"data": [str(path) for path in data], **score_records(predictor, records)}
    files.write_json(run / METRICS, scores)
    return scores
