"""``heedful compare``: test whether two runs differ significantly on labelled files."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from heedful.commands.evaluate import labelled_records
from heedful.commands.inputs import files_of
from heedful.errors import UserError
from heedful.evaluation import Evaluation
from heedful.item_results import ItemResult
from heedful.predictor import Predictor
from heedful.reading.lines import STDIN
from heedful.reports.comparison import Comparison, PairedResults, check_comparable
from heedful.settings import ColumnSettings
from heedful.task import Say


def compare(
    names: tuple[str, str],
    predictors: tuple[Predictor, Predictor],
    data: Sequence[Path],
    columns: ColumnSettings,
    *,
    metric: str | None = None,
    seed: int = 0,
    say: Say = lambda line: None,
) -> Comparison:
    """Compare the predictions of two runs on the same items.

    Args:
        names: names of the runs.
        predictors: predictors of the runs.
        data: labelled files.
        columns: columns of the texts and labels.
        metric: the metric to compare. None takes the task's first metric, or the data's first if
            the data has its own metrics.
        seed: seed of the random draws.
        say: called with each message for the user.

    Raises:
        UserError: the runs are not comparable, the metric is unknown, or the data is wrong.
    """
    tasks = (predictors[0].task, predictors[1].task)
    check_comparable(names, tasks)
    scorers = (tasks[0].item_scorer(), tasks[1].item_scorer())
    for path in files_of(data):
        if path == STDIN or (path.exists() and not (path.is_file() or path.is_dir())):
            raise UserError(f"--data {path}: both runs read the data, so it must be a file")
    pairing = PairedResults(scorers, metric, default_metric=tasks[0].metrics()[0])
    with ExitStack() as stack:
        results: list[Iterator[ItemResult]] = [
            scorer.results(
                Evaluation(
                    predictor,
                    stack.enter_context(labelled_records(predictor, data, columns, line)),
                )
            )
            for predictor, scorer, line in zip(
                predictors, scorers, (say, lambda line: None), strict=True
            )
        ]
        pairing.update(zip(*results, strict=True))
    return pairing.compare(names, tasks[0].name, seed=seed)
