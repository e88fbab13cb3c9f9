"""Users' files to records: CSV, TSV, JSON lines, Parquet and plain text, streamed.

Several files are one stream, read in order. Nothing is cut, guessed or skipped in silence: a row
that cannot be read as asked is an error that says where it stands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError, did_you_mean, unknown_name
from heedful.files import sha256
from heedful.reading.delimited import csv_rows, tsv_rows, without_line_end
from heedful.reading.fields import (
    Field,
    Values,
    find_field,
    find_fields,
    read_labels,
    read_text,
    unique,
)
from heedful.reading.json_objects import read_objects
from heedful.reading.lines import STDIN, check_file, read_lines, source_name
from heedful.settings import ColumnSettings

Text = str | tuple[str, str]
"""One text, or a pair."""

FORMATS = ("csv", "tsv", "jsonl", "parquet", "text")

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One text, or pair of texts, as its user wrote it."""

    text: str
    text_pair: str | None
    labels: tuple[str, ...] | None
    """The labels as written, one unless a separator or a list gave more or none; None when no
    label was asked for."""
    source: str
    """The file, as it is named in messages."""
    line: int
    """Line of the file from 1 (of a Parquet file: row)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What a data file was when it was used."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a row holds what."""

    text: tuple[Field, ...]
    pair: tuple[Field, ...] | None
    label: Field | None


_Row = tuple[int, _Layout, Values]


def read_records(
    paths: Sequence[Path],
    columns: ColumnSettings,
    *,
    allow_empty: bool = False,
) -> Iterator[Record]:
    """Read records from files, one at a time; memory does not grow with the files.

    Args:
        paths: the files, in order; ``-`` is stdin (plain text unless ``columns`` says otherwise).
        columns: which columns to read, and the format of all files; by default the ending of each
            file's name says it (before ``.gz``). Plain text has no columns: each line is a text.
        allow_empty: whether a text may be empty or blank: right for prediction, seldom for
            training.

    Raises:
        UserError: at once for a file that is missing or of unknown format, during iteration for
            what is wrong inside a file, with its line and column.
    """
    if not paths:
        raise UserError("no data file given")
    formats = [_format_of(path, columns) for path in paths]
    for path in paths:
        check_file(path)
    return _records(paths, formats, columns, allow_empty)


def fingerprint(paths: Sequence[Path]) -> list[Fingerprint]:
    """Return the size and SHA-256 of each file.

    Raises:
        UserError: a file is missing or is not a regular file, so could not be read again.
    """
    prints = []
    for path in paths:
        check_file(path)
        if not path.is_file():
            raise UserError(f"{source_name(path)}: not a regular file, so it cannot be read twice")
        size = path.stat().st_size
        prints.append(Fingerprint(file=str(path), bytes=size, sha256=sha256(path)))
    return prints


def ending_format(path: Path) -> str | None:
    """Return the format that a file's name says, if it says one."""
    return _ENDINGS.get(_without_gz(path).suffix.lower())


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _format_of(path: Path, columns: ColumnSettings) -> str:
    format = columns.format
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    plain = _without_gz(path)
    found = format or ("text" if path == STDIN else ending_format(path))
    if found is None:
        ending = plain.suffix.lower()
        raise UserError(
            f"{path}: unknown ending {ending!r}{did_you_mean(ending, _ENDINGS)}; "
            f"known: {' '.join(_ENDINGS)}, or say its format: {', '.join(FORMATS)}"
        )
    if found == "text" and columns != ColumnSettings(label=None, format=format):
        raise UserError(
            f"{source_name(path)}: read as plain text, which has one text a line and no columns; "
            "say its format: csv, tsv, jsonl or parquet"
        )
    if found in ("jsonl", "parquet") and not columns.header:
        raise UserError(f"{source_name(path)}: --no-header is for CSV and TSV; {found} has names")
    if found == "parquet" and (path == STDIN or plain != path):
        raise UserError(f"{source_name(path)}: Parquet is read from plain files only")
    return found


def _records(
    paths: Sequence[Path], formats: Sequence[str], columns: ColumnSettings, allow_empty: bool
) -> Iterator[Record]:
    separator = columns.label_separator
    for path, format in zip(paths, formats, strict=True):
        source = source_name(path)
        unit = "row" if format == "parquet" else "line"
        number = 0
        for number, layout, values in _rows(path, format, columns):
            try:
                text = read_text(values, layout.text, allow_empty)
                pair = read_text(values, layout.pair, allow_empty) if layout.pair else None
                labels = read_labels(values, layout.label, separator) if layout.label else None
            except UserError as error:
                raise UserError(f"{source}, {unit} {number}, {error}") from None
            yield Record(text=text, text_pair=pair, labels=labels, source=source, line=number)
        if number == 0:
            raise UserError(f"{source}: holds no records")


def _rows(path: Path, format: str, columns: ColumnSettings) -> Iterator[_Row]:
    if format == "parquet":
        return _parquet_rows(path, columns)
    if format == "jsonl":
        return _json_rows(path, columns)
    lines = read_lines(path)
    if format == "text":
        return _text_rows(lines)
    return _table_rows(lines, source_name(path), columns, format)


def _table_rows(
    lines: Iterator[str], source: str, columns: ColumnSettings, format: str
) -> Iterator[_Row]:
    rows = csv_rows(lines, source) if format == "csv" else tsv_rows(lines, source)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{source}: empty")
    number, cells = first
    layout = _layout(columns, source, cells if columns.header else None, len(cells))
    if not columns.header:
        yield number, layout, cells
    for number, cells in rows:
        yield number, layout, cells


def _json_rows(path: Path, columns: ColumnSettings) -> Iterator[_Row]:
    names: list[str] = []
    layout: _Layout | None = None
    for number, value in read_objects(path):
        if layout is None or list(value) != names:
            names = list(value)
            where = f"{source_name(path)}, line {number}"
            layout = _layout(columns, where, names, 0)  # keys have no order, so no numbers
        yield number, layout, list(value.values())


def _text_rows(lines: Iterator[str]) -> Iterator[_Row]:
    layout = _Layout(text=(Field(0, "text"),), pair=None, label=None)
    for number, line in enumerate(lines, start=1):
        yield number, layout, [without_line_end(line)]


def _parquet_rows(path: Path, columns: ColumnSettings) -> Iterator[_Row]:
    from heedful.reading import parquet  # pyarrow, only where it is needed

    names = parquet.column_names(path)
    layout = _layout(columns, str(path), names, len(names))
    used = [*layout.text, *(layout.pair or ()), *([layout.label] if layout.label else ())]
    places = [column.place for column in used]
    cells = parquet.read_rows(path, [unique(column.name, str(path), names) for column in used])
    for number, values in enumerate(cells, start=1):
        yield number, layout, dict(zip(places, values, strict=True))


def _layout(
    columns: ColumnSettings, where: str, names: Sequence[str] | None, width: int
) -> _Layout:
    """Find the asked-for columns by name, or by number among the first ``width``."""
    pair, label = columns.text_pair, columns.label
    return _Layout(
        text=find_fields(columns.text, where, names, width),
        pair=None if pair is None else find_fields(pair, where, names, width),
        label=None if label is None else find_field(label, where, names, width),
    )
