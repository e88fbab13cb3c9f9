"""``heedful report`` and ``heedful compare``."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from heedful.cli.options import (
    COLUMNS,
    PREDICTING,
    SCORING,
    Columns,
    Predicting,
    Scoring,
    collector_at_rest,
    print_table,
    say,
    show,
)
from heedful.errors import UserError


def report(
    run: Path,
    *,
    data: list[Path] | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    scoring: Scoring = SCORING,
) -> None:
    """Report on a run in one offline HTML file: curves, scores with intervals, errors.

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    data
        Labelled files; without them the report shows only the contents of the run folder.
    out
        File to create; default: report.html in the run folder.
    overwrite
        Replace the file in --out.
    """
    with collector_at_rest():
        from heedful import files
        from heedful.commands import report as command
        from heedful.commands.inputs import files_of
        from heedful.commands.report import seed_of
        from heedful.predictor import Predictor

    path = command.path_of(run, out)
    files.check_new_file(path, overwrite=overwrite)
    if data is None:
        if (columns, predicting, scoring) != (COLUMNS, PREDICTING, SCORING):
            raise UserError("column options, computing and scores are for --data")
        made = command.report_of_folder(run)
    else:
        files.check_not_input("--out", path, files_of(data))
        settings, seed = seed_of(predicting)
        predictor = Predictor.load(run, settings)
        predictor.set_score_settings(scoring)
        labelled = command.LabelledData(paths=data, columns=columns)
        made = command.report_on_data(run, predictor, labelled, seed=seed, say=say)
    made.save(path, overwrite=overwrite)
    say(f"report of {run} written to {path}")


def compare(
    first: Path,
    second: Path,
    *,
    data: list[Path],
    metric: str | None = None,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    scoring: Scoring = SCORING,
) -> None:
    """Test whether two runs differ on labelled files by more than chance: JSON on standard output.

    Parameters
    ----------
    first
        Run folder, or a folder saved by transformers.
    second
        Run folder of the same task, labels and scores.
    data
        Labelled files.
    metric
        Score to compare by; default: the first score of the task, or of the data.
    """
    with collector_at_rest():
        from heedful.commands import compare as command
        from heedful.commands.report import seed_of
        from heedful.metrics.tables import comparison_table
        from heedful.predictor import Predictor

    settings, seed = seed_of(predicting)
    predictors = Predictor.load(first, settings), Predictor.load(second, settings)
    for predictor in predictors:
        predictor.set_score_settings(scoring)
    names = str(first), str(second)
    comparison = command.compare(
        names, predictors, data, columns, metric=metric, seed=seed, say=say
    )
    row = comparison.to_dict()
    print_table(comparison_table(row))
    say(comparison.conclusion)
    show(json.dumps(row, ensure_ascii=False))
