"""The commands that show what runs are worth."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from heedful.cli.options import COLUMNS, PREDICTING, Columns, Predicting, say
from heedful.errors import UserError


def report(
    run: Path,
    *,
    data: list[Path] | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
) -> None:
    """Show a run in one HTML file that needs no network: curves, scores with intervals, errors.

    Parameters
    ----------
    run
        Run folder.
    data
        Labelled files; without them the report shows what the run folder alone knows.
    out
        File to make; default: report.html in the run folder.
    overwrite
        Replace the file of --out.
    """
    from heedful import files
    from heedful.commands import report as command
    from heedful.predictor import Predictor

    path = command.path_of(run, out)
    files.check_new_file(path, overwrite=overwrite)
    if data is None:
        if (columns, predicting) != (COLUMNS, PREDICTING):
            raise UserError("the options of columns and computing are for --data")
        made = command.report_of_folder(run)
    else:
        predictor = Predictor.load(run, predicting)
        labelled = command.LabelledData(paths=data, columns=columns)
        made = command.report_on_data(run, predictor, labelled, say=say)
    made.save(path, overwrite=overwrite)
    say(f"report of {run} written to {path}")
