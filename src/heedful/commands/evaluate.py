"""``heedful evaluate``: a run and files with the truth in, scores out."""

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
from heedful.commands.identity import check_same, identity, prints_beside
from heedful.commands.inputs import files_of
from heedful.commands.kept import Kept, open_kept
from heedful.commands.parts import kept
from heedful.commands.predictions import PredictionsFile
from heedful.errors import UserError, amount, message_of
from heedful.evaluation import Evaluation
from heedful.predictor import Predictor
from heedful.reading.frames import data_name
from heedful.settings import ColumnSettings, OutputSettings, left_out
from heedful.task import SAMPLE, Say, Start
from heedful.training import ranks
from heedful.training.progress import counted

METRICS = "metrics.json"

_UNSCORED = ("alignments", "whole_words", "raw", "piece_tags", "token_vectors", "targets")
"""Options of answers that nothing scores."""


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
    """Evaluate a run and write the scores to its ``metrics.json``, if that can be written.

    Args:
        run: the run.
        data: files with the truth.
        columns: where it stands in them.
        predictor: of the run.
        say: takes each line meant for the user.
        predictions_file: gets each answer beside its truth.
        output: keeps what is computed for that file, so that a later call goes on after a stop.
        show: tells the user the scores. What is kept is deleted after that.

    Returns:
        The scores; empty where the output is to go on but is finished.

    Raises:
        UserError: see `Evaluation`; or what nothing scores is asked for, or the file of
            predictions is one of the data.
        KeyboardInterrupt: the user stopped it; it says how to go on.
    """
    say = ranks.said_once(say)
    with ranks.failing_together():
        data = files_of(data)
        if predictions_file is not None:
            files.refuse_if_read("--predictions", predictions_file.path, data)
    check_same(run, predictor, asdict(columns), data)
    if output is None:
        scores = _evaluate(run, data, columns, predictor, say, predictions_file, None)
        _show(scores, show)
        return scores
    facts = identity(run, predictor, asdict(columns))
    with open_kept(output, {**facts, "prints": prints_beside(predictor, data)}) as memory:
        if memory is None:
            say(f"{output.out} is finished; nothing to do")
            return {}
        if memory.items:
            say(f"going on after {amount(memory.items, 'answer')}")
        if predictions_file is not None and memory.parts is not None:
            predictions_file = replace(predictions_file, overwrite=memory.parts.overwrite)
        with kept(memory.parts):
            scores = _evaluate(run, data, columns, predictor, say, predictions_file, memory)
        _show(scores, show)
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
    memory: Kept | None,
) -> dict[str, Any]:
    with labelled_records(predictor, data, columns, say) as records:
        started = time.monotonic()
        beside = None
        if predictor.precision.int8:  # not otherwise: copies that nobody reads fill the memory
            records, copies = tee(records)
            beside = _Wider(run, predictor, copies)
        evaluation = Evaluation(predictor, records, memory=memory)
        answered = evaluation if beside is None else beside.compare(evaluation)
        if predictions_file is None or not ranks.is_first():
            for _ in answered:
                pass
        else:
            predictions_file.write(predictor.task.judge(), answered)
        scores = evaluation.scores()
        if beside is not None:
            scores["wider"] = beside.scores()
    if "tokens" in scores:  # how much was written, and how fast
        if beside is None:  # else the time is that of both precisions
            scores["tokens_per_second"] = scores["tokens"] / (time.monotonic() - started)
        if not predictor.settings.sample:
            scores["beam"] = predictor.settings.beam
    if unread := scores["tokens_total"] - scores["tokens_used"]:
        total = scores["tokens_total"]
        say(f"{unread:,} of {total:,} tokens were not read; --long-text decides that")
    scores = {"data": [data_name(path) for path in data], **scores}
    if (run / RECORD).is_file() and ranks.is_first():  # another library's folder is left as it is
        _write(scores, run / METRICS, say)
    return scores


def _show(scores: dict[str, Any], show: Callable[[dict[str, Any]], None]) -> None:
    with ranks.failing_together():
        if ranks.is_first():
            show(scores)


def _write(scores: dict[str, Any], path: Path, say: Say) -> None:
    """Write scores beside the run; where that cannot be done they are returned all the same."""
    try:
        with files.new_file(path, overwrite=True) as partial:
            files.write_json(partial, scores)
    except (OSError, UserError) as error:
        say(f"the scores are not kept: {message_of(error)}")


class _Wider:
    """The same records answered without int8, so that one sees what that costs.

    Args:
        run: the run.
        predictor: of it, in int8.
        records: hold the truth.
    """

    def __init__(self, run: Path, predictor: Predictor, records: Iterator[Any]) -> None:
        wider = Predictor.load(run, replace(predictor.settings, precision="auto"))
        wider.task = predictor.task  # scored in the same way
        self.precision = wider.precision.name
        self._evaluation = Evaluation(wider, records)
        self._changed = 0
        # Numbers always differ in some digit.
        self._counts = "embed" not in predictor.task.abilities
        self._judge = predictor.task.judge()

    def compare(self, answered: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield what int8 answered, and count where the wider answer reads otherwise."""
        for number, (pair, (answer, _)) in enumerate(zip(answered, self._evaluation, strict=True)):
            if not number and self._counts:
                (judgement,) = self._judge.judged([pair])
                self._counts = judgement.right is not None
            self._changed += self._counts and pair[0].plain() != answer.plain()
            yield pair

    def scores(self) -> dict[str, Any]:
        """Return the wider scores, their precision, and how many answers int8 changed."""
        scores = self._evaluation.scores()
        overall = {name: score for name, score in scores.items() if isinstance(score, float)}
        changed = {"answers_changed": self._changed} if self._counts else {}
        return {"number_format": self.precision, **changed, "scores": overall}


@contextmanager
def labelled_records(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings, say: Say
) -> Iterator[Iterator[Any]]:
    """Give records with their truth, and say what is odd about the first of them.

    Raises:
        UserError: the files are wrong; or what nothing scores is asked for.
    """
    left_out(predictor.settings, _UNSCORED, "has no effect where answers are scored")
    start = Start(
        tokenizer=predictor.tokenizer, model=predictor.model, max_length=predictor.max_length
    )
    with TemporaryDirectory() as folder:
        with ranks.failing_together():
            paths = files_of(data)
            read = predictor.task.labelled_records(paths, columns, start, Path(folder))
            records = predictor.task.scorable(read(), say)
            sample = list(islice(records, SAMPLE))
        if line := predictor.task.doubt(sample):
            say(line)
        yield counted(chain(sample, records), "items evaluated")
