"""``heedful report``: write an HTML report on a run, and optionally on labelled files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heedful import files
from heedful.checkpoints.runs import RECORD, is_finished, read_record
from heedful.commands.evaluate import METRICS, labelled_records
from heedful.errors import UserError
from heedful.evaluation import Evaluation
from heedful.interop import external_record
from heedful.predictor import Predictor
from heedful.reading.frames import data_name
from heedful.reports.attributions import explain_answers
from heedful.reports.document import Report, ScoredData, report
from heedful.reports.observation import Observation
from heedful.settings import ColumnSettings, PredictSettings
from heedful.task import Say
from heedful.tasks import read_task

REPORT = "report.html"


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledData:
    """Labelled files, and their column settings."""

    paths: Sequence[Path]
    columns: ColumnSettings


def report_of_folder(run: Path) -> Report:
    """Report on a run from its folder only; its training need not have finished.

    Raises:
        UserError: the folder is not a run folder, or a file in it is damaged.
    """
    record = external_record(run) or read_record(run)
    metrics = files.read_json_or_empty(run / METRICS)
    # A run saves what its task has learnt only at the end of the training.
    unfinished = (run / RECORD).is_file() and not is_finished(run)
    card = "Its training has not finished." if unfinished else read_task(record, run).model_card()
    return report(run, record, card, None, metrics)


def report_on_data(
    run: Path,
    predictor: Predictor,
    data: LabelledData,
    *,
    seed: int = 0,
    say: Say = lambda line: None,
) -> Report:
    """Report on a run, with its predictions on labelled data.

    Args:
        run: the run folder.
        predictor: predictor of the run.
        data: the labelled data.
        seed: seed of the bootstrap.
        say: called with each message for the user.

    Raises:
        UserError: see `heedful.commands.evaluate.labelled_records` and `Evaluation`.
    """
    task = predictor.task
    observation = Observation(task.item_scorer())
    with labelled_records(predictor, data.paths, data.columns, say) as records:
        evaluation = Evaluation(predictor, records)
        observation.update(evaluation)
        scores = evaluation.scores()
    names = [data_name(path) for path in data.paths]
    why = explain_answers(predictor, observation.worth_explaining)
    scored = ScoredData(data=names, scores=scores, observation=observation, why=why, seed=seed)
    return report(run, predictor.record, task.model_card(), scored, {})


def path_of(run: Path, out: Path | None) -> Path:
    """Return the path of the report, by default a file in the run folder.

    Raises:
        UserError: the file extension is not that of a page, or no path is given and the folder is
            another library's, where heedful writes nothing.
    """
    if out is not None and out.suffix.lower() not in ("", ".html", ".htm"):
        raise UserError(f"--out {out}: a report is an HTML page; end its name in .html")
    if out is None and not run.exists():
        raise UserError(f"{run}: no such run folder")
    if out is None and not (run / RECORD).is_file():
        raise UserError(f"{run} is not a heedful run: give the file of the report with --out")
    return out or run / REPORT


def seed_of(settings: PredictSettings) -> tuple[PredictSettings, int]:
    """Return the settings without the seed, and the seed, which seeds the resampling of items.

    If predictions are sampled, the settings keep the seed, too.
    """
    if settings.sample:
        return settings, settings.seed
    return replace(settings, seed=PredictSettings().seed), settings.seed
