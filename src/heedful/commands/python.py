"""What Python users call: the commands, with their options as keywords."""

import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any, Unpack, cast

import torch

from heedful.commands import compare as comparing
from heedful.commands import evaluate as evaluation
from heedful.commands import report as reporting
from heedful.commands import train as training
from heedful.commands.predictions import PredictionsFile
from heedful.commands.report import seed_of
from heedful.errors import (
    LONGEST_NAME,
    UserError,
    as_arguments,
    naming_arguments,
    shorten,
    unknown_name,
)
from heedful.explanations.explaining import explain_record
from heedful.explanations.explanation import Explanation
from heedful.files import as_path
from heedful.models import loading
from heedful.predictor import Asked, Predictor, with_options
from heedful.reading.frames import Data, as_files, naming_rows
from heedful.reports.comparison import Comparison
from heedful.reports.document import Report
from heedful.settings import (
    TASKS,
    ColumnSettings,
    EvaluateOptions,
    ExplainOptions,
    ExplainSettings,
    OutputSettings,
    PredictOptions,
    PredictSettings,
    RunSettings,
    ScoreSettings,
    TeacherSettings,
    TrainOptions,
    checked_value,
    checked_values,
)
from heedful.task import Recipe, Say
from heedful.tasks import task_named
from heedful.training.fit import Outcome

_EVALUATING = (ColumnSettings, PredictSettings, ScoreSettings)
_ONE_AT_A_TIME = threading.RLock()
"""Held while a thread trains, for two at once would draw each other's random numbers."""


@contextmanager
def _learning() -> Iterator[None]:
    """Compute gradients, wherever the caller is, whose random numbers stay as they are."""
    with (
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def train(
    task: str,
    *,
    train: Data,
    out: str | os.PathLike[str],
    dev: Data = None,
    say: Say = _tell,
    **options: Unpack[TrainOptions],
) -> Outcome | None:
    """Train a model on your own data and leave a run folder, as ``heedful train TASK`` does.

    ``heedful.train("classify", train="tickets.csv", out="runs/tickets", epochs=3)``; then
    ``heedful.load("runs/tickets")("a text")``.

    Args:
        task: ``classify``, ``regress``, ``tag``, ``answer``, ``choose``, ``embed``, ``pretrain``,
            ``generate`` or ``translate``.
        train: a file, several, a list of dicts, or a table of pandas or pyarrow.
        out: the run folder to make.
        dev: what to evaluate on while training, like ``train``.
        say: takes each line meant for the user; by default they go to standard error.
        options: the command's options, dashes as underscores: ``heedful train TASK --help``.

    Returns:
        How it ended; None where ``resume=True`` finds the run finished.

    Raises:
        UserError: an option is misspelt or out of range, or the data is wrong.
        KeyboardInterrupt: the user stopped it; ``resume=True`` goes on from the checkpoint.
    """
    with naming_arguments(), _ONE_AT_A_TIME, _learning(), ExitStack() as files:
        task_named(checked_value("task", task, str))
        entry = TASKS[task]
        kinds = {
            "data": entry.data,
            "options": entry.options,
            "columns": ColumnSettings,
            "training": entry.training,
            "teaching": TeacherSettings,
            "run": RunSettings,
        }
        _refuse_unknown(options, kinds.values())
        say = _in_python(say)
        values: dict[str, Any] = {**options, "out": as_path("out", out)}
        columns = _settings(ColumnSettings, {**values})
        values["train"] = files.enter_context(as_files(train, "train", columns))
        if dev is not None:
            values["dev"] = files.enter_context(as_files(dev, "dev", columns))
        groups = {name: _settings(kind, values) for name, kind in kinds.items()}
        files.enter_context(_warning(say))
        return training.train(task, Recipe(**groups), say=say)


def evaluate(
    run: str | os.PathLike[str],
    data: Data,
    *,
    predictions: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    say: Say = _tell,
    **options: Unpack[EvaluateOptions],
) -> dict[str, Any]:
    """Score a run on data with the truth, as ``heedful evaluate`` does.

    Args:
        run: the run folder; its ``metrics.json`` gets the scores.
        data: a file, several, a list of dicts, or a table of pandas or pyarrow.
        predictions: a .jsonl or .csv file for each answer beside its truth.
        resume: whether to go on with an evaluation with that file that was stopped.
        overwrite: whether to replace that file.
        say: takes each line meant for the user; by default they go to standard error.
        options: the command's options, dashes as underscores.

    Returns:
        The scores; none where ``resume=True`` finds the evaluation finished.

    Raises:
        UserError: an option is misspelt or out of range, or the run or the data is wrong.
        KeyboardInterrupt: the user stopped it; with ``predictions``, ``resume=True`` goes on.
    """
    with naming_arguments(), ExitStack() as stack:
        _refuse_unknown(options, _EVALUATING)
        say = _in_python(say)
        folder = as_path("run", run)
        flags = {"resume": resume, "overwrite": overwrite}
        flags = {name: checked_value(name, flag, bool) for name, flag in flags.items()}
        values: dict[str, Any] = {**options}
        columns = _settings(ColumnSettings, values)
        files = stack.enter_context(as_files(data, columns=columns))
        file = output = None
        if predictions is not None:
            output = OutputSettings(out=as_path("predictions", predictions), **flags)
            file = PredictionsFile(as_path("predictions", predictions), **flags)
        elif resume:
            raise UserError("resume is for the file of predictions")
        predictor = Predictor.load(run, _settings(PredictSettings, values))
        predictor.score_by(_settings(ScoreSettings, values))
        return evaluation.evaluate(folder, files, columns, predictor, say, file, output)


def explain(
    run: str | os.PathLike[str] | Predictor,
    text: Asked,
    **options: Unpack[ExplainOptions],
) -> Explanation:
    """Say which tokens an answer comes from, as ``heedful explain`` does.

    ``heedful.explain(model, "a text")`` at the end of a cell of a notebook shows itself.

    Args:
        run: the run folder, or a run that `heedful.load` loaded.
        text: a text, a pair, or a question with its choices.
        options: the command's options, dashes as underscores; ``method`` is one or several.

    Raises:
        UserError: an option is misspelt or out of range, or there is nothing to explain.
    """
    with naming_arguments(), torch.inference_mode(False):
        _refuse_unknown(options, (ExplainSettings, PredictSettings))
        values: dict[str, Any] = {**options}
        if isinstance(method := values.get("method"), str):
            values["method"] = (method,)
        settings = _settings(ExplainSettings, values)
        if isinstance(run, Predictor):
            computed = with_options(run.settings, cast(PredictOptions, values))
        else:  # bf16 is too coarse for differences of outputs
            computed = _settings(PredictSettings, {"precision": "fp32", **values})
            run = Predictor.load(run, computed)
        (record,) = run.records([text])
        return explain_record(run, record, settings, computed)


def report(
    run: str | os.PathLike[str],
    data: Data = None,
    *,
    say: Say = _tell,
    **options: Unpack[EvaluateOptions],
) -> Report:
    """Report on a run, as ``heedful report`` does: curves, scores with intervals, errors.

    ``heedful.report("runs/tickets", "new_tickets.csv").save("report.html")``; at the end of a cell
    of a notebook it shows itself.

    Args:
        run: the run folder.
        data: with the truth: a file, several, a list of dicts, or a table of pandas or pyarrow.
            Without it the report shows what the run folder alone knows.
        say: takes each line meant for the user; by default they go to standard error.
        options: the command's options, dashes as underscores.

    Raises:
        UserError: an option is misspelt or out of range, or the run or the data is wrong.
    """
    with naming_arguments(), torch.inference_mode(False), ExitStack() as stack:
        _refuse_unknown(options, _EVALUATING)
        say = _in_python(say)
        folder = as_path("run", run)
        values: dict[str, Any] = {**options}
        columns = _settings(ColumnSettings, values)
        settings, seed = seed_of(_settings(PredictSettings, values))
        scoring = _settings(ScoreSettings, values)
        if data is None:
            if options:
                raise UserError(f"{next(iter(options))} is for data: give data, too")
            return reporting.report_of_folder(folder)
        files = stack.enter_context(as_files(data, columns=columns))
        labelled = reporting.LabelledData(paths=files, columns=columns)
        predictor = Predictor.load(run, settings)
        predictor.score_by(scoring)
        return reporting.report_on_data(folder, predictor, labelled, seed=seed, say=say)


def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    data: Data,
    *,
    metric: str | None = None,
    say: Say = _tell,
    **options: Unpack[EvaluateOptions],
) -> Comparison:
    """Tell whether two runs differ by more than chance, as ``heedful compare`` does.

    Args:
        first: a run folder.
        second: a run folder of the same task and labels.
        data: with the truth: a file, several, a list of dicts, or a table of pandas or pyarrow.
        metric: the score that decides; by default the first of the task, or of the data.
        say: takes each line meant for the user; by default they go to standard error.
        options: the command's options, dashes as underscores.

    Raises:
        UserError: an option is misspelt or out of range, the runs do not do the same, or the data
            is wrong.
    """
    with naming_arguments(), ExitStack() as stack:
        _refuse_unknown(options, _EVALUATING)
        say = _in_python(say)
        names = str(as_path("first", first)), str(as_path("second", second))
        metric = checked_value("metric", metric, str | None)
        values: dict[str, Any] = {**options}
        columns = _settings(ColumnSettings, values)
        files = stack.enter_context(as_files(data, columns=columns))
        settings, seed = seed_of(_settings(PredictSettings, values))
        scoring = _settings(ScoreSettings, values)
        predictors = Predictor.load(first, settings), Predictor.load(second, settings)
        for predictor in predictors:
            predictor.score_by(scoring)
        return comparing.compare(
            names, predictors, files, columns, metric=metric, seed=seed, say=say
        )


def _in_python(say: Say) -> Say:
    """Return what takes a line that is written for the command, and says it for Python.

    Raises:
        UserError: it takes no lines.
    """
    if not callable(say):
        raise UserError(
            f"say is {shorten(repr(say), LONGEST_NAME)}: expected a function that takes a line, "
            "such as print; for silence give say=lambda line: None"
        )
    return lambda line: say(as_arguments(naming_rows(line)))


@contextmanager
def _warning(say: Say) -> Iterator[None]:
    """Have a function take what the logger of loading warns of, which else is on standard error.

    The logger is that of all threads: what others load meanwhile is not meant.
    """
    thread = threading.get_ident()

    def take(record: logging.LogRecord) -> bool:
        if threading.get_ident() != thread:
            return True
        say(record.getMessage())
        return False

    loading.logger.addFilter(take)
    try:
        yield
    finally:
        loading.logger.removeFilter(take)


def _refuse_unknown(names: Iterable[str], kinds: Iterable[type]) -> None:
    known = [field.name for kind in kinds for field in fields(kind)]
    for name in names:
        if name not in known:
            raise unknown_name("setting", name, known)


def _settings(kind: type, values: dict[str, Any]) -> Any:
    """Take the fields of a group of settings out of some values.

    Raises:
        UserError: a value is of another type, or none of the choices that there are.
    """
    names = [field.name for field in fields(kind) if field.name in values]
    return kind(**checked_values(kind, {name: values.pop(name) for name in names}))
