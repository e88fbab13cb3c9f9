"""Option groups that several commands share, and the output to the user."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from heedful import settings
from heedful.errors import UserError, escape_controls
from heedful.files import with_file_name
from heedful.settings import (
    ColumnSettings,
    DataFormat,
    OutputSettings,
    PredictSettings,
    ScoreSettings,
)

if TYPE_CHECKING:  # rich is imported where it is needed
    from _typeshed import ReadableBuffer
    from rich.console import Console, Group
    from rich.table import Table

Columns = Annotated[ColumnSettings, Parameter(name="*", group="Columns")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedColumns(ColumnSettings):
    """Column settings for commands whose ``--format`` means something else."""

    format: Annotated[DataFormat | None, Parameter(name="--data-format")] = None
    """Format of the --data files; default: by file extension. images: one folder of images for
    each class."""


Exported = Annotated[ExportedColumns, Parameter(name="*", group="Columns")]
Predicting = Annotated[PredictSettings, Parameter(name="*", group="Computing")]
Scoring = Annotated[ScoreSettings, Parameter(name="*", group="Scores")]
Output = Annotated[OutputSettings, Parameter(name="*", group="Files", negative="")]
# Defaults.
COLUMNS, PREDICTING, SCORING = ColumnSettings(), PredictSettings(), ScoreSettings()
EXPORTED = ExportedColumns()
OUTPUT = OutputSettings()


@cache
def put_help_on_one_line() -> None:
    """Set the help text of each settings field to its docstring, on one line.

    cyclopts reads these docstrings itself, but keeps the indentation of continuation lines. Only
    ``--help`` does this: parsing all docstrings takes 50 ms, which other commands need not wait
    for.
    """
    for kind in (*vars(settings).values(), ExportedColumns):
        if is_dataclass(kind) and isinstance(kind, type) and kind is not settings.TaskEntry:
            _put_on_one_line(kind)


def _put_on_one_line(kind: type) -> None:
    from docstring_parser import parse_from_object
    from rich.markup import escape

    # rich would take square brackets for markup.
    sentences = {one.arg_name: one.description or "" for one in parse_from_object(kind).params}
    defaults = {field.name: field.default for field in fields(kind)}
    for name in kind.__annotations__.keys() & defaults.keys():
        text = escape(" ".join(sentences[name].split()))
        shown: Any = None  # cyclopts decides
        if isinstance(defaults[name], settings.Unnamed):
            shown = False  # the docstring describes the default
        elif isinstance(defaults[name], tuple):
            shown = ", ".join if defaults[name] else False
        parameter = Parameter(help=text, show_default=shown)
        kind.__annotations__[name] = Annotated[kind.__annotations__[name], parameter]


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Pause the garbage collector during imports, then exclude the imported objects from it.

    Imports create many objects and hardly any garbage, so collections during them are wasted time.
    If torch is imported already, most imports are done, and some objects may be garbage: then this
    does nothing.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _Unfailing(FileIO):
    """A file that drops what it cannot write."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write the data, or drop it."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def drop_messages_without_reader() -> None:
    """Let standard error drop messages that it cannot write, so that none of them stops the work.

    It may be a pipe whose reader has ended, the terminal of a closed window, a file on a full disk,
    or closed.
    """
    if sys.stderr is None:  # closed; ``print`` would take None for standard output
        nowhere = FileIO(os.devnull, "w")
        sys.stderr = TextIOWrapper(nowhere, encoding="utf-8", errors="backslashreplace")
        return
    buffer = getattr(sys.stderr, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # unbuffered if PYTHONUNBUFFERED is set
    if type(raw) is FileIO:  # not a console of Windows, or what a test puts here
        sys.stderr = TextIOWrapper(
            BufferedWriter(_Unfailing(raw.fileno(), "wb", closefd=False)),
            encoding=sys.stderr.encoding,
            errors=sys.stderr.errors,
            line_buffering=True,
        )


def say(line: str) -> None:
    """Print a message to standard error; results go to standard output."""
    print(escape_controls(line), file=sys.stderr, flush=True)


def show(line: str) -> None:
    """Print a result unchanged; on a terminal, make control characters visible.

    Raises:
        UserError: standard output is closed, or cannot be written.
    """
    if sys.stdout is None:  # ``print`` would drop the result
        raise UserError("standard output is closed, so there is nowhere to write results")
    with with_file_name(Path("standard output")):
        shown = escape_controls(line) if sys.stdout.isatty() else line
        print(shown, flush=True)  # the next may take long


def print_table(tables: "Group") -> None:
    """Print tables to standard error."""
    from rich.console import Console, Group
    from rich.table import Table

    console = Console(stderr=True, highlight=False)
    parts = [
        _stacked(part) if isinstance(part, Table) and _is_too_wide(part, console) else part
        for part in tables.renderables
    ]
    console.print(Group(*parts))


def _is_too_wide(table: "Table", console: "Console") -> bool:
    """Return whether a table is too wide for the terminal, so that rich would cut digits."""
    from rich.measure import Measurement

    unbounded = console.options.update_width(2**16)
    return Measurement.get(console, unbounded, table).minimum > console.width


def _stacked(table: "Table") -> "Table":
    """Return a table with the cells of each row below each other, for a narrow terminal."""
    from rich.table import Table

    stacked = Table(box=None, pad_edge=False, show_header=False)
    stacked.add_column()
    stacked.add_column(justify="right")
    for name, *cells in zip(*(column.cells for column in table.columns), strict=True):
        stacked.add_row(name)
        for column, cell in zip(table.columns[1:], cells, strict=True):
            stacked.add_row(f"  {column.header}", cell)
    return stacked
