"""``heedful evaluate``: score a run on labelled files."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain, islice, tee
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heedful import files
from heedful.checkpoints.runs import RECORD
from heedful.commands.identity import check_same, file_fingerprints, identity
from heedful.commands.inputs import files_of
from heedful.commands.outputs import told_as_finished
from heedful.commands.parts import resumable
from heedful.commands.predictions import PredictionsFile
from heedful.commands.stored_outputs import StoredOutputs, open_stored
from heedful.errors import UserError, count_of, message_of
from heedful.evaluation import Evaluation
from heedful.metrics.by_label import one_label_warning
from heedful.predictor import Predictor
from heedful.reading.frames import data_name
from heedful.settings import ColumnSettings, OutputSettings, refuse_options
from heedful.task import WARNING_SAMPLE, Say, Start
from heedful.training import ranks
from heedful.training.progress import counted

METRICS = "metrics.json"

_UNSCORED = ("alignments", "whole_words", "raw", "piece_tags", "token_vectors", "targets")
"""Options that add outputs without effect on scores."""


def evaluate(
    run: Path,
    data: Sequence[Path],
    columns: ColumnSettings,
    predictor: Predictor,
    say: Say = lambda line: None,
    predictions_file: PredictionsFile | None = None,
    output: OutputSettings | None = None,
    show: Callable[[dict[str, Any]], None] = lambda scores: None,
) -> dict[str, Any]:
    """Evaluate a run and write the scores to its ``metrics.json``, if that file is writable.

    Args:
        run: the run.
        data: labelled files.
        columns: columns of the texts and labels.
        predictor: predictor of the run.
        say: called with each message for the user.
        predictions_file: file for the predictions and labels.
        output: storage of the model's outputs, so that a later call can resume after a stop.
        show: called with the scores. The stored outputs are deleted afterwards.

    Returns:
        The scores; empty if ``output`` is to be resumed but is finished.

    Raises:
        UserError: see `Evaluation`; or an option has no effect on scores, or the predictions file
            is one of the data files.
        KeyboardInterrupt: the user interrupted it; the message says how to resume.
    """
    say = ranks.on_first_rank(say)
    with ranks.failing_together():
        data = files_of(data)
        if predictions_file is not None:
            files.check_not_input("--predictions", predictions_file.path, data)
    check_same(run, predictor, asdict(columns), data)
    if output is None:
        scores = _evaluate(run, data, columns, predictor, say, predictions_file, None)
        _show_once(scores, show)
        return scores
    facts = identity(run, predictor, asdict(columns))
    with open_stored(output, {**facts, "prints": file_fingerprints(predictor, data)}) as memory:
        if memory is None:
            say(told_as_finished(output))
            return {}
        if memory.items:
            say(f"continuing after {count_of(memory.items, 'answer')}")
        if predictions_file is not None and memory.parts is not None:
            predictions_file = replace(predictions_file, overwrite=memory.parts.overwrite)
        with resumable(memory.parts):
            scores = _evaluate(run, data, columns, predictor, say, predictions_file, memory)
        _show_once(scores, show)
        if memory.parts is not None:
            memory.parts.discard()
        return scores


def _evaluate(
    run: Path,
    data: Sequence[Path],
    columns: ColumnSettings,
    predictor: Predictor,
    say: Say,
    predictions_file: PredictionsFile | None,
    memory: StoredOutputs | None,
) -> dict[str, Any]:
    with labelled_records(predictor, data, columns, say) as records:
        started = time.monotonic()
        baseline = None
        if predictor.precision.int8:  # only then: unread copies would fill the memory
            records, copies = tee(records)
            baseline = _Baseline(run, predictor, copies)
        evaluation = Evaluation(predictor, records, memory=memory)
        answered = evaluation if baseline is None else baseline.compare(evaluation)
        if predictions_file is None or not ranks.is_first():
            for _ in answered:
                pass
        else:
            predictions_file.write(predictor.task.item_scorer(), answered)
        scores = evaluation.scores()
        if baseline is not None:
            scores["wider"] = baseline.scores()
    # The tokens of a translation are generated, those of causal language modelling are given.
    if "tokens" in scores and "prefix" in predictor.task.abilities:
        if baseline is None:  # otherwise the time includes both precisions
            scores["tokens_per_second"] = scores["tokens"] / (time.monotonic() - started)
        if not predictor.settings.sample:
            scores["beam"] = predictor.settings.beam
    if unread := scores["tokens_total"] - scores["tokens_used"]:
        total = scores["tokens_total"]
        say(f"{unread:,} of {total:,} tokens were not read; see --long-text")
    if line := one_label_warning(scores):
        say(line)
    scores = {"data": [data_name(path) for path in data], **scores}
    if (run / RECORD).is_file() and ranks.is_first():  # do not write to another library's folder
        _write(scores, run / METRICS, say)
    return scores


def _show_once(scores: dict[str, Any], show: Callable[[dict[str, Any]], None]) -> None:
    with ranks.failing_together():
        if ranks.is_first():
            show(scores)


def _write(scores: dict[str, Any], path: Path, say: Say) -> None:
    """Write the scores into the run folder, and only warn if that fails."""
    try:
        with files.new_file(path, overwrite=True) as partial:
            files.write_json(partial, scores)
    except (OSError, UserError) as error:
        say(f"the scores were not saved: {message_of(error)}")


class _Baseline:
    """Evaluation of the same records without int8, to show the loss due to int8.

    Args:
        run: the run.
        predictor: predictor of the run, in int8.
        records: labelled records.
    """

    def __init__(self, run: Path, predictor: Predictor, records: Iterator[Any]) -> None:
        baseline = Predictor.load(run, replace(predictor.settings, precision="auto"))
        baseline.task = predictor.task  # for the same scoring
        self.precision = baseline.precision.name
        self._evaluation = Evaluation(baseline, records)
        self._changed = 0
        # Vectors and other numbers always differ in some digit, so changes are not counted.
        self._counts = "embed" not in predictor.task.abilities
        self._scorer = predictor.task.item_scorer()

    def compare(self, answered: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield the int8 predictions, and count those that differ from the baseline's."""
        for number, (pair, (answer, _)) in enumerate(zip(answered, self._evaluation, strict=True)):
            if not number and self._counts:
                (result,) = self._scorer.results([pair])
                self._counts = result.correct is not None
            self._changed += self._counts and pair[0].plain() != answer.plain()
            yield pair

    def scores(self) -> dict[str, Any]:
        """Return the baseline's scores and precision, and the number of changed predictions."""
        scores = self._evaluation.scores()
        overall = {name: score for name, score in scores.items() if isinstance(score, float)}
        changed = {"answers_changed": self._changed} if self._counts else {}
        return {"number_format": self.precision, **changed, "scores": overall}


@contextmanager
def labelled_records(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings, say: Say
) -> Iterator[Iterator[Any]]:
    """Yield an iterator of labelled records, and warn if the first records look wrong.

    Several labels of a row are separated as in the run's training, unless the columns say how.

    Raises:
        UserError: the files are wrong, or an option has no effect on scores.
    """
    refuse_options(predictor.settings, _UNSCORED, "has no effect on scores")
    start = Start(
        tokenizer=predictor.tokenizer, model=predictor.model, max_length=predictor.max_length
    )
    separator = predictor.record.settings.get("label_separator")
    if columns.label_separator is None and isinstance(separator, str):
        columns = replace(columns, label_separator=separator)
    with TemporaryDirectory() as folder:
        with ranks.failing_together():
            paths = files_of(data)
            read = predictor.task.labelled_records(paths, columns, start, Path(folder))
            records = predictor.task.drop_unscorable(read(), say)
            sample = list(islice(records, WARNING_SAMPLE))
        if line := predictor.task.warn_about(sample):
            say(line)
        yield counted(chain(sample, records), "items evaluated")
