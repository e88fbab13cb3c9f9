"""``heedful evaluate``: a run and records with their truth in, scores out."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, tee
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heedful import files
from heedful.checkpoints.runs import RECORD
from heedful.commands.corpus import check_documents, open_corpus
from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings
from heedful.tasks import read_files
from heedful.tasks.pretrain import sequences
from heedful.training.progress import counted

METRICS = "metrics.json"
SAMPLE = 1000
"""Records that are looked at for what is odd about all of them."""
_TOGETHER = 1024


def score_records(predictor: Predictor, records: Iterable[Any]) -> dict[str, Any]:
    """Score a predictor on records of its task, holding only some thousands at a time.

    Returns:
        The task's scores, and ``tokens_total`` and ``tokens_used``: of how many tokens of the texts
        how many were read.

    Raises:
        UserError: there is no record, or one has a truth the model does not know.
    """
    scores = predictor.task.scores(predictor.goal)
    truths, copies = tee(records)
    answers = predictor.answers(copies, labelled=True)
    total = used = 0
    while chunk := list(islice(answers, _TOGETHER)):
        scores.update(chunk, list(islice(truths, len(chunk))))
        total += sum(answer.tokens_total for answer in chunk)
        used += sum(answer.tokens_used for answer in chunk)
    return scores.compute() | {"tokens_total": total, "tokens_used": used}


def evaluate(
    run: Path,
    data: Sequence[Path],
    columns: ColumnSettings,
    predictor: Predictor,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Evaluate a run and write the scores to its ``metrics.json``.

    Raises:
        UserError: see `score_records`; or links are asked for, which nothing scores.
    """
    task = predictor.task
    if predictor.settings.alignments:
        raise UserError("--alignments decides nothing where translations are scored")
    if task.learns_from_corpus:
        found = _score_corpus(predictor, data, columns)
    else:
        records = read_files(task, data, columns, labelled=True)
        sample = list(islice(records, SAMPLE))
        if line := task.doubt(sample, predictor.goal):
            say(line)
        started = time.monotonic()
        found = score_records(predictor, counted(chain(sample, records), "items evaluated"))
        if "tokens" in found:  # what was written, and how fast
            found["tokens_per_second"] = found["tokens"] / (time.monotonic() - started)
            if not predictor.settings.sample:
                found["beam"] = predictor.settings.beam
    if cut := found["tokens_total"] - found["tokens_used"]:
        say(f"{cut:,} of {found['tokens_total']:,} tokens were not read; --long-text decides that")
    scores = {"data": [str(path) for path in data], **found}
    if (run / RECORD).is_file():  # another library's folder is left as it is
        files.write_json(run / METRICS, scores)
    return scores


def _score_corpus(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings
) -> dict[str, Any]:
    """Score a predictor on running text, tokenized into a file that is then deleted."""
    if columns != ColumnSettings():
        raise UserError("plain text has no columns: leave out their options")
    goal, tokenizer = predictor.goal, predictor.tokenizer
    check_documents(data, goal)
    with TemporaryDirectory() as folder:
        corpus = open_corpus(data, goal, tokenizer, Path(folder))
        found = sequences(corpus, goal, tokenizer, max_length=predictor.max_length, seed=0, epoch=0)
        return score_records(predictor, counted(found, "sequences evaluated"))
