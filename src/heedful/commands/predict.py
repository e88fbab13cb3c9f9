"""``heedful predict``: texts in, one line an answer out."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings
from heedful.tasks import Task, read_files


def records_of(
    task: Task, texts: Sequence[str], path: Path | None, columns: ColumnSettings
) -> Iterable[Any]:
    """Return records of the texts given as arguments, in a file, or on standard input one a line.

    Raises:
        UserError: texts are given twice over, or not at all.
    """
    if texts and path is not None:
        raise UserError("give texts as arguments or with --input, not both")
    if texts:
        if columns.text_pair is not None:
            raise UserError("--text-pair is for --input; as arguments only single texts are taken")
        return task.from_texts(texts)
    if path is None and sys.stdin.isatty():
        raise UserError('no text: give "a text", --input FILE, or pipe one text a line in')
    path = path or Path("-")
    plain = path == Path("-") or path.name.removesuffix(".gz").endswith(".txt")
    if task.uses_columns and plain and columns.format is None:
        columns = replace(columns, format="text")
    return read_files(task, [path], columns, labelled=False)


def line_of(predictor: Predictor, answer: Any, *, all_scores: bool, plain: bool) -> str:
    """Format one answer: a JSON object, or with ``plain`` the answer alone."""
    if plain:
        return predictor.task.plain(answer)
    row = predictor.task.row(answer, all_scores)
    row |= {"tokens_total": answer.tokens_total, "tokens_used": answer.tokens_used}
    return json.dumps(row, ensure_ascii=False)
