"""The commands as Python functions, with their options as keyword arguments."""

import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any, Unpack, cast

import torch

from heedful.answer_options import with_options
from heedful.commands import compare as comparing
from heedful.commands import evaluate as evaluation
from heedful.commands import report as reporting
from heedful.commands import train as training
from heedful.commands.predictions import PredictionsFile
from heedful.commands.report import seed_of
from heedful.errors import (
    MAX_NAME_LENGTH,
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
from heedful.predictor import PredictInput, Predictor
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
_TRAINING_LOCK = threading.RLock()
"""Held while a thread trains: concurrent training would share one random number generator."""


@contextmanager
def _with_gradients() -> Iterator[None]:
    """Enable gradients whatever the caller's mode, and restore the caller's RNG state."""
    with (
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def train(
    task: str,
    *,
    train: Data,
    out: str | os.PathLike[str],
    dev: Data = None,
    say: Say = _print_to_stderr,
    **options: Unpack[TrainOptions],
) -> Outcome | None:
    """Train a model on your own data and write a run folder, like ``heedful train TASK``.

    ``heedful.train("classify", train="tickets.csv", out="runs/tickets", epochs=3)``; then
    ``heedful.load("runs/tickets")("a text")``.

    Args:
        task: ``classify``, ``regress``, ``tag``, ``answer``, ``choose``, ``embed``, ``pretrain``,
            ``generate`` or ``translate``.
        train: training data: one or several files, a list of dicts, or a pandas or pyarrow table.
        out: the run folder to create.
        dev: data for evaluation during training, in any form that ``train`` accepts.
        say: called with each message for the user; messages go to standard error by default.
        options: the command's options, with underscores for dashes: ``heedful train TASK --help``.

    Returns:
        The outcome of the training; None if ``resume=True`` finds the run finished.

    Raises:
        UserError: an option is misspelt or out of range, or the data is wrong.
        KeyboardInterrupt: the user interrupted it; ``resume=True`` resumes from the checkpoint.
    """
    with naming_arguments(), _TRAINING_LOCK, _with_gradients(), ExitStack() as files:
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
        _reject_unknown(options, kinds.values())
        say = _for_python(say)
        values: dict[str, Any] = {**options, "out": as_path("out", out)}
        columns = _settings(ColumnSettings, {**values})
        values["train"] = files.enter_context(as_files(train, "train", columns))
        if dev is not None:
            values["dev"] = files.enter_context(as_files(dev, "dev", columns))
        groups = {name: _settings(kind, values) for name, kind in kinds.items()}
        files.enter_context(_warnings_to(say))
        return training.train(task, Recipe(**groups), say=say)


def evaluate(
    run: str | os.PathLike[str],
    data: Data,
    *,
    predictions: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    say: Say = _print_to_stderr,
    **options: Unpack[EvaluateOptions],
) -> dict[str, Any]:
    """Score a run on labelled data, like ``heedful evaluate``.

    Args:
        run: the run folder; the scores are written to its ``metrics.json``.
        data: labelled data: one or several files, a list of dicts, or a pandas or pyarrow table.
        predictions: a .jsonl or .csv file for the predictions and their labels.
        resume: whether to resume an interrupted evaluation with that file.
        overwrite: whether to replace that file.
        say: called with each message for the user; messages go to standard error by default.
        options: the command's options, with underscores for dashes.

    Returns:
        The scores; empty if ``resume=True`` finds the evaluation finished.

    Raises:
        UserError: an option is misspelt or out of range, or the run or the data is wrong.
        KeyboardInterrupt: the user interrupted it; with ``predictions``, ``resume=True`` resumes
            it.
    """
    with naming_arguments(), ExitStack() as stack:
        _reject_unknown(options, _EVALUATING)
        say = _for_python(say)
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
        elif resume or overwrite:
            name = "resume" if resume else "overwrite"
            raise UserError(f"{name} is for the file of predictions")
        predictor = Predictor.load(run, _settings(PredictSettings, values))
        predictor.set_score_settings(_settings(ScoreSettings, values))
        return evaluation.evaluate(folder, files, columns, predictor, say, file, output)


def explain(
    run: str | os.PathLike[str] | Predictor,
    text: PredictInput,
    **options: Unpack[ExplainOptions],
) -> Explanation:
    """Attribute a prediction to its input tokens, like ``heedful explain``.

    A notebook displays the result of ``heedful.explain(model, "a text")`` at the end of a cell.

    Args:
        run: the run folder, or a run loaded by `heedful.load`.
        text: a text, a pair, or a question with its choices.
        options: the command's options, with underscores for dashes; ``method`` is one or several
            names.

    Raises:
        UserError: an option is misspelt or out of range, or there is nothing to explain.
    """
    with naming_arguments(), torch.inference_mode(False):
        _reject_unknown(options, (ExplainSettings, PredictSettings))
        values: dict[str, Any] = {**options}
        if isinstance(method := values.get("method"), str):
            values["method"] = (method,)
        settings = _settings(ExplainSettings, values)
        if isinstance(run, Predictor):
            computed = with_options(run.settings, cast(PredictOptions, values))
        else:  # the precision of bf16 is too low for differences of outputs
            computed = _settings(PredictSettings, {"precision": "fp32", **values})
            run = Predictor.load(run, computed)
        (record,) = run.records([text])
        return explain_record(run, record, settings, computed)


def report(
    run: str | os.PathLike[str],
    data: Data = None,
    *,
    say: Say = _print_to_stderr,
    **options: Unpack[EvaluateOptions],
) -> Report:
    """Report curves, scores with confidence intervals, and errors, like ``heedful report``.

    ``heedful.report("runs/tickets", "new_tickets.csv").save("report.html")`` writes the report. A
    notebook displays it at the end of a cell.

    Args:
        run: the run folder.
        data: labelled data: one or several files, a list of dicts, or a pandas or pyarrow table.
            Without data the report uses only the run folder.
        say: called with each message for the user; messages go to standard error by default.
        options: the command's options, with underscores for dashes.

    Raises:
        UserError: an option is misspelt or out of range, or the run or the data is wrong.
    """
    with naming_arguments(), torch.inference_mode(False), ExitStack() as stack:
        _reject_unknown(options, _EVALUATING)
        say = _for_python(say)
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
        predictor.set_score_settings(scoring)
        return reporting.report_on_data(folder, predictor, labelled, seed=seed, say=say)


def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    data: Data,
    *,
    metric: str | None = None,
    say: Say = _print_to_stderr,
    **options: Unpack[EvaluateOptions],
) -> Comparison:
    """Test whether two runs differ by more than chance, like ``heedful compare``.

    Args:
        first: a run folder.
        second: a run folder of the same task and labels.
        data: labelled data: one or several files, a list of dicts, or a pandas or pyarrow table.
        metric: the metric to compare; the first metric of the task or the data by default.
        say: called with each message for the user; messages go to standard error by default.
        options: the command's options, with underscores for dashes.

    Raises:
        UserError: an option is misspelt or out of range, the runs are not comparable, or the data
            is wrong.
    """
    with naming_arguments(), ExitStack() as stack:
        _reject_unknown(options, _EVALUATING)
        say = _for_python(say)
        names = str(as_path("first", first)), str(as_path("second", second))
        metric = checked_value("metric", metric, str | None)
        values: dict[str, Any] = {**options}
        columns = _settings(ColumnSettings, values)
        files = stack.enter_context(as_files(data, columns=columns))
        settings, seed = seed_of(_settings(PredictSettings, values))
        scoring = _settings(ScoreSettings, values)
        predictors = Predictor.load(first, settings), Predictor.load(second, settings)
        for predictor in predictors:
            predictor.set_score_settings(scoring)
        return comparing.compare(
            names, predictors, files, columns, metric=metric, seed=seed, say=say
        )


def _for_python(say: Say) -> Say:
    """Return a function that rewrites a message for Python users and passes it to ``say``.

    Raises:
        UserError: ``say`` is not callable.
    """
    if not callable(say):
        raise UserError(
            f"say is {shorten(repr(say), MAX_NAME_LENGTH)}: expected a function that takes a line, "
            "such as print; for silence give say=lambda line: None"
        )
    return lambda line: say(as_arguments(naming_rows(line)))


@contextmanager
def _warnings_to(say: Say) -> Iterator[None]:
    """Pass the loading logger's warnings to ``say`` instead of standard error.

    All threads share the logger, so only warnings of the current thread are passed.
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


def _reject_unknown(names: Iterable[str], kinds: Iterable[type]) -> None:
    known = [field.name for kind in kinds for field in fields(kind)]
    for name in names:
        if name not in known:
            raise unknown_name("setting", name, known)


def _settings(kind: type, values: dict[str, Any]) -> Any:
    """Build a group of settings from its fields in ``values``, and remove them from ``values``.

    Raises:
        UserError: a value has the wrong type, or is not one of the allowed choices.
    """
    names = [field.name for field in fields(kind) if field.name in values]
    return kind(**checked_values(kind, {name: values.pop(name) for name in names}))
