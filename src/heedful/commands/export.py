"""``heedful export``: write a run in another program's format, and compare the scores."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heedful import interop
from heedful.commands.evaluate import labelled_records
from heedful.errors import UserError
from heedful.evaluation import Evaluation
from heedful.interop import FORMATS
from heedful.metrics import summary
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings, ExportSettings, PredictSettings
from heedful.task import Say


def export(
    run: Path,
    to: Path,
    name: str,
    *,
    settings: ExportSettings,
    data: Sequence[Path],
    columns: ColumnSettings,
    overwrite: bool,
    say: Say,
) -> dict[str, dict[str, float]] | None:
    """Write a run in a format; with data, also score the model and its export.

    Returns:
        With data, for each metric the score of the model, the score of the export, and the change.

    Raises:
        UserError: an option has no effect; or see ``interop.export``.
    """
    if not data and columns != ColumnSettings():
        raise UserError("column options are for the files of --data: give --data too")
    if data and FORMATS[name].opener is None:
        computed = " or ".join(name for name, kind in FORMATS.items() if kind.opener is not None)
        raise UserError(
            f"--data has no effect on --format {name}, whose weights are the run's; it is for "
            f"--format {computed}"
        )
    before = None
    if data:  # before the export, so that wrong data fails before anything is written
        predictor = Predictor.load(run, PredictSettings(precision="fp32", device="cpu"))
        before = scores_of(predictor, data, columns, say)
    check = interop.export(run, to, name, settings=settings, overwrite=overwrite)
    say(f"{run} exported to {to}; {check}")
    if before is None:
        return None
    exported = copy.copy(predictor)
    exported.model = predictor.model.with_exported(interop.open_exported(run, to, name))
    after = scores_of(exported, data, columns, say)
    return {
        key: {"model": before[key], "export": after[key], "change": after[key] - before[key]}
        for key in before
    }


def scores_of(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings, say: Say
) -> dict[str, float]:
    """Return those scores of a predictor on labelled files that are floats."""
    with labelled_records(predictor, data, columns, say) as records:
        evaluation = Evaluation(predictor, records)
        for _ in evaluation:
            pass
        scores: dict[str, Any] = summary(evaluation.scores())
    return {key: score for key, score in scores.items() if isinstance(score, float)}
