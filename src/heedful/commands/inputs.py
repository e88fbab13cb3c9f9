"""Read unlabelled records from the command line, from files or from standard input."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from heedful.errors import UserError, with_article
from heedful.reading import Text
from heedful.reading.compressed import extension_of
from heedful.reading.lines import STDIN, UTF8, check_file, read_lines
from heedful.reading.shards import matching
from heedful.settings import TASKS, ColumnSettings
from heedful.task import AnyTask
from heedful.training import ranks


def texts_of(
    task: AnyTask,
    texts: Sequence[str],
    context: str | None,
    context_file: Path | None,
    encoding: str = UTF8,
) -> Sequence[Text]:
    """Return the texts on the command line, each paired with the context if given.

    Raises:
        UserError: two contexts are given, the context cannot be read, no text is given with it, or
            the task takes no context.
    """
    for number, text in enumerate(texts, start=1):
        _check_utf8(text, number)
    if context is None and context_file is None:
        return texts
    if "prefix" in task.abilities:  # its pairs are a text and a prefix of the answer
        option = "--context" if context_file is None else "--context-file"
        raise UserError(f"{option} has no effect on {with_article(task.name)} run")
    if context is not None and context_file is not None:
        raise UserError("give --context or --context-file, not both")
    if not texts:
        raise UserError(
            "--context goes with texts given as arguments, not with --input or standard input"
        )
    if context_file is not None:
        check_file(context_file)
        context = "".join(read_lines(context_file, encoding=encoding))
    assert context is not None
    return [(text, context) for text in texts]


def _check_utf8(text: str, number: int) -> None:
    """Reject text whose bytes were not UTF-8, unless a file has this name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        if not os.path.exists(text):
            raise UserError(
                f"text {number}: not UTF-8; set the terminal to UTF-8, or give --input FILE"
            ) from None


def records_of(
    task: AnyTask, texts: Sequence[Text], paths: Sequence[Path], columns: ColumnSettings
) -> Iterable[Any]:
    """Return the records of the texts on the command line, in files, or on standard input.

    Raises:
        UserError: see `streams_of`.
    """
    return chain.from_iterable(streams_of(task, texts, paths, columns))


def streams_of(
    task: AnyTask,
    texts: Sequence[Text],
    paths: Sequence[Path],
    columns: ColumnSettings,
    against: Path | None = None,
) -> Sequence[Iterable[Any]]:
    """Return one stream of records for the command line, for each file, or for standard input.

    Args:
        task: the task, which reads the records.
        texts: texts on the command line.
        paths: input files.
        columns: columns to read.
        against: another file, read with the same columns.

    Raises:
        UserError: texts come from two sources or from none, or several processes would read
            standard input.
    """
    if texts and paths:
        raise UserError("give texts as arguments or with --input, not both")
    if texts:
        if against is None and columns != ColumnSettings(encoding=columns.encoding):
            raise UserError("column options are for --input, not for texts given as arguments")
        return [task.from_texts(texts)]
    if not paths and (sys.stdin is None or sys.stdin.isatty()):  # None: closed
        raise UserError('no text: give "a text", --input FILE, or pipe in one text per line')
    if (not paths or STDIN in paths) and ranks.size() > 1:
        raise UserError("several processes cannot read standard input: give --input FILE")
    # Each file is opened separately, by its own format, so a missing file fails immediately.
    others = () if against is None else (against,)
    return [_read(task, path, shared(columns, path, others)) for path in paths or [STDIN]]


def shared(columns: ColumnSettings, path: Path, others: Sequence[Path]) -> ColumnSettings:
    """Return the columns of one of several files; plain text has none if another file has columns.

    Args:
        columns: the column settings, given once for all files.
        path: the file.
        others: the other files.
    """
    if _is_plain(path, columns) and not all(_is_plain(other, columns) for other in others):
        return ColumnSettings(encoding=columns.encoding)
    return columns


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, with patterns such as ``new/*.csv`` expanded in order.

    Raises:
        UserError: no file matches a pattern.
    """
    return [file for path in paths for file in matching(path)]


def _read(task: AnyTask, path: Path, columns: ColumnSettings) -> Iterator[Any]:
    if TASKS[task.name].columns and _is_plain(path, columns):
        columns = replace(columns, format="text")
    return task.read([path], columns, labelled=False)


def _is_plain(path: Path, columns: ColumnSettings) -> bool:
    return columns.format is None and (path == STDIN or extension_of(path) == ".txt")


def with_prefix(task: AnyTask, records: Iterable[Any], prefix: str) -> Iterator[Any]:
    """Yield the records with a prefix that each output must begin with.

    Raises:
        UserError: the task takes no prefix, or a record has its own prefix.
    """
    if "prefix" not in task.abilities:
        raise UserError(f"--prefix has no effect on {with_article(task.name)} run")
    for record in records:
        if record.text_pair is not None:
            raise UserError("give --prefix, or a prefix of its own for each text, not both")
        yield replace(record, text_pair=prefix)
