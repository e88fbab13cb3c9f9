"""Groups of options that several commands have, and how commands speak to people."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from heedful import settings
from heedful.errors import visible
from heedful.settings import (
    ColumnSettings,
    DataFormat,
    OutputSettings,
    PredictSettings,
    ScoreSettings,
)

if TYPE_CHECKING:  # rich is imported where it is needed
    from rich.console import Console, Group
    from rich.table import Table

Columns = Annotated[ColumnSettings, Parameter(name="*", group="Columns")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedColumns(ColumnSettings):
    """The same where ``--format`` is another thing."""

    format: Annotated[DataFormat | None, Parameter(name="--data-format")] = None
    """Format of the files of --data; default: by the ending of their names. images: folders of
    pictures, one folder a class."""


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
    """Give each field of the settings the sentence under it as its help, on one line.

    The library reads these sentences, too, but shows the indents of those that go on over lines.
    It is done when help is asked for: to read all the sentences takes 50 ms, which no
    other command has to wait for.
    """
    for kind in (*vars(settings).values(), ExportedColumns):
        if is_dataclass(kind) and isinstance(kind, type) and kind is not settings.TaskEntry:
            _put_on_one_line(kind)


def _put_on_one_line(kind: type) -> None:
    from docstring_parser import parse_from_object
    from rich.markup import escape

    # Square brackets in a sentence are no markup of the library that shows it.
    sentences = {one.arg_name: one.description or "" for one in parse_from_object(kind).params}
    defaults = {field.name: field.default for field in fields(kind)}
    for name in kind.__annotations__.keys() & defaults.keys():
        text = escape(" ".join(sentences[name].split()))
        shown: Any = None  # as the library shows it
        if isinstance(defaults[name], settings.Unnamed):
            shown = False  # the sentence says what is read then
        elif isinstance(defaults[name], tuple):
            shown = ", ".join if defaults[name] else False
        told = Parameter(help=text, show_default=shown)
        kind.__annotations__[name] = Annotated[kind.__annotations__[name], told]


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from looking through all that is imported time and again.

    It would find none, and what is there at the end stays for good. Where torch is imported, most
    has been, and some of what is there may be garbage: the collector goes on.
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


def say(line: str) -> None:
    """Tell the user something, beside the results on standard output."""
    print(visible(line), file=sys.stderr, flush=True)


def show(line: str) -> None:
    """Give the user a result as it is; a terminal shows control characters and obeys none."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # None: closed
    print(visible(line) if terminal else line, flush=True)  # what comes next may be long in coming


def print_table(tables: "Group") -> None:
    """Show tables beside the results, too."""
    from rich.console import Console, Group
    from rich.table import Table

    console = Console(stderr=True, highlight=False)
    parts = [
        _stacked(part) if isinstance(part, Table) and _is_too_wide(part, console) else part
        for part in tables.renderables
    ]
    console.print(Group(*parts))


def _is_too_wide(table: "Table", console: "Console") -> bool:
    """Tell whether a table would lose digits: rich cuts words that have no room."""
    from rich.measure import Measurement

    unbounded = console.options.update_width(2**16)
    return Measurement.get(console, unbounded, table).minimum > console.width


def _stacked(table: "Table") -> "Table":
    """Lay out the cells of each row one below the other, as a narrow terminal has room for."""
    from rich.table import Table

    stacked = Table(box=None, pad_edge=False, show_header=False)
    stacked.add_column()
    stacked.add_column(justify="right")
    for name, *cells in zip(*(column.cells for column in table.columns), strict=True):
        stacked.add_row(name)
        for column, cell in zip(table.columns[1:], cells, strict=True):
            stacked.add_row(f"  {column.header}", cell)
    return stacked
