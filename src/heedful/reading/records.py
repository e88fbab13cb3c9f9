"""Stream records from users' files: CSV, TSV, JSON, Parquet and plain text.

Several files form one stream, read in order. Nothing is truncated, guessed or skipped silently. A
row that cannot be read is an error that names its line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path

from heedful.errors import UserError, check_known, did_you_mean, join_names, shell_word
from heedful.files import sha256
from heedful.reading.compressed import compression_of, extension_of
from heedful.reading.delimited import (
    Row,
    csv_rows,
    delimiter_of,
    named_delimiter,
    tsv_rows,
    without_line_end,
)
from heedful.reading.fields import (
    MAX_SUGGESTION_NAMES,
    Cells,
    Field,
    find_field,
    find_fields,
    read_labels,
    read_text,
    unique,
)
from heedful.reading.images import fingerprint_of
from heedful.reading.json_objects import read_objects, unit_of
from heedful.reading.lines import (
    STDIN,
    check_file,
    is_utf8,
    read_files,
    read_lines,
    source_name,
)
from heedful.settings import ColumnSettings

Text = str | tuple[str, str]
"""One text, or a pair."""

FORMATS = ("csv", "tsv", "jsonl", "parquet", "text")

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One text, or pair of texts, as the user wrote it."""

    text: str
    text_pair: str | None
    labels: tuple[str, ...] | None
    """The labels as in the file: one, or any number in a list or with a separator. None if labels
    were not read."""
    source: str
    """The file's name in messages."""
    line: int
    """Line of the file, from 1; or row, if the file has no lines."""
    unit: str = "line"
    """The unit of ``line``: ``line`` or ``row``."""

    @property
    def where(self) -> str:
        """The record's location, for messages."""
        return f"{self.source}, {self.unit} {self.line}"

    @property
    def texts(self) -> dict[str, str]:
        """The fields that identify the record in a prediction's output: the text, or both texts."""
        pair = {} if self.text_pair is None else {"text_pair": self.text_pair}
        return {"text": self.text, **pair}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """Size and hash of a data file at the time of use."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _RowFields:
    """The columns of a row to read."""

    text: tuple[Field, ...]
    pair: tuple[Field, ...] | None
    label: Field | None

    def all(self) -> tuple[Field, ...]:
        """Return all columns to read."""
        return (*self.text, *(self.pair or ()), *([self.label] if self.label else ()))


_Row = tuple[int, _RowFields, Cells]
"""Line number, columns and cells of a row."""


def read_records(
    paths: Sequence[Path],
    columns: ColumnSettings,
    *,
    allow_empty: bool = False,
) -> Iterator[Record]:
    """Read records from files, one at a time. Memory use does not grow with the files.

    Args:
        paths: the files, in order; ``-`` is stdin (plain text unless ``columns`` sets a format).
        columns: the columns to read, and the format of all files. By default, each file's extension
            determines its format, ignoring ``.gz`` and other compression extensions. Plain text
            has no columns: each line is a text.
        allow_empty: whether a text may be empty or blank. This is right for prediction, but rarely
            for training. In a table of one column, an empty line may be an empty text.

    Raises:
        UserError: immediately for a file that is missing or of unknown format; during iteration for
            an error inside a file, with its line and column.
    """
    formats = {path: _format_of(path, columns) for path in paths}
    return read_files(
        paths, lambda path: _records(path, formats[path], columns, allow_empty), "records"
    )


def fingerprint(paths: Sequence[Path], *, folders: bool = False) -> list[Fingerprint]:
    """Return the size and SHA-256 of each file.

    Args:
        paths: the files.
        folders: whether paths may be image folders. Each folder counts as one file.

    Raises:
        UserError: a file is missing, or is not a regular file and so cannot be read twice.
    """
    fingerprints = []
    for path in paths:
        if folders and path.is_dir():
            size, digest = fingerprint_of(path)
            fingerprints.append(Fingerprint(file=str(path), bytes=size, sha256=digest))
            continue
        if path.is_dir():
            raise UserError(
                f"{path}: a folder; give a file (classify reads folders of images with --format "
                "images)"
            )
        check_file(path)
        if not path.is_file():
            raise UserError(f"{source_name(path)}: not a regular file, so it cannot be read twice")
        size = path.stat().st_size
        fingerprints.append(Fingerprint(file=str(path), bytes=size, sha256=sha256(path)))
    return fingerprints


def format_of_extension(path: Path) -> str | None:
    """Return the format for a file's extension; None if the extension is unknown."""
    return _ENDINGS.get(extension_of(path))


def _format_of(path: Path, columns: ColumnSettings) -> str:
    if columns.format is not None:
        check_known("format", columns.format, FORMATS)
    format = columns.format or ("text" if path == STDIN else format_of_extension(path))
    if format is None:
        if path.is_dir():
            pattern = shell_word(f"{path}/*.csv")
            raise UserError(f"{path}: a folder; give a file, or a pattern such as {pattern}")
        ending = extension_of(path)
        if ending in _SPREADSHEETS:
            raise UserError(f"{path}: a spreadsheet; save each sheet as CSV in UTF-8 and give that")
        raise UserError(
            f"{path}: unknown ending {ending!r}{did_you_mean(ending, _ENDINGS)}; "
            f"known: {' '.join(_ENDINGS)}, or give the format: {', '.join(FORMATS)}"
        )
    if format == "text" and columns != ColumnSettings(
        label=None, format=columns.format, encoding=columns.encoding
    ):
        raise UserError(
            f"{source_name(path)}: read as plain text, which has one text per line and no columns;"
            " for a table, give the format: csv, tsv, jsonl or parquet"
        )
    if format in ("jsonl", "parquet") and not columns.header:
        raise UserError(f"{source_name(path)}: --no-header is for CSV and TSV; {format} has names")
    if format == "parquet" and not is_utf8(columns.encoding):
        raise UserError(f"{path}: --encoding is for text; a Parquet file needs none")
    if format == "parquet" and (path == STDIN or compression_of(path) is not None):
        raise UserError(
            f"{source_name(path)}: Parquet is read from uncompressed files only, not from stdin"
        )
    return format


def _records(
    path: Path, format: str, columns: ColumnSettings, allow_empty: bool
) -> Iterator[Record]:
    separator = columns.label_separator
    source = source_name(path)
    unit = {"parquet": "row", "jsonl": unit_of(path)}.get(format, "line")
    for number, fields, cells in _rows(path, format, columns, allow_empty):
        try:
            text = read_text(cells, fields.text, allow_empty)
            pair = read_text(cells, fields.pair, allow_empty) if fields.pair else None
            labels = read_labels(cells, fields.label, separator) if fields.label else None
        except UserError as error:
            raise UserError(f"{source}, {unit} {number}, {error}") from None
        yield Record(
            text=text, text_pair=pair, labels=labels, source=source, line=number, unit=unit
        )


def _rows(path: Path, format: str, columns: ColumnSettings, keep_empty: bool) -> Iterator[_Row]:
    if format == "parquet":
        return _parquet_rows(path, columns)
    if format == "jsonl":
        return _json_rows(path, columns)
    lines = read_lines(path, encoding=columns.encoding)
    if format == "text":
        return _text_rows(lines)
    source = source_name(path)
    if format == "tsv":
        rows = tsv_rows(lines, source, keep_empty=keep_empty)
        return _table_rows(rows, source, columns, keep_empty)
    lines, lookahead = tee(lines)
    delimiter = named_delimiter(next(lookahead, ""))
    del lookahead  # otherwise tee would keep all lines in memory
    start = 1 if delimiter is None else 2
    if delimiter is not None:
        next(lines)
    elif columns.header or path != STDIN:  # stdin may be slow to deliver more lines
        lines, lookahead = tee(lines)
        delimiter = delimiter_of(lookahead, header=columns.header)
        del lookahead
    rows = csv_rows(lines, source, delimiter=delimiter or ",", keep_empty=keep_empty, start=start)
    return _table_rows(rows, source, columns, keep_empty)


def _table_rows(
    rows: Iterator[Row], source: str, columns: ColumnSettings, keep_empty: bool
) -> Iterator[_Row]:
    """Yield rows with their columns. Empty rows, as spreadsheets write, count as empty lines."""
    first = next(rows, None)
    if first is None:
        raise UserError(f"{source}: empty")
    number, cells = first
    fields = _fields(columns, source, cells if columns.header else None, len(cells))
    if not columns.header:
        yield number, fields, cells
    for number, cells in rows:
        if keep_empty or len(cells) == 1 or any(cells):
            yield number, fields, cells


def _json_rows(path: Path, columns: ColumnSettings) -> Iterator[_Row]:
    names: list[str] = []
    fields: _RowFields | None = None
    for number, value in read_objects(path, columns.encoding):
        if fields is None or list(value) != names:
            names, before = list(value), fields
            where = f"{source_name(path)}, {unit_of(path)} {number}"
            if before is not None:
                _check_has(names, before, where, unit_of(path))
            fields = _fields(columns, where, names, 0)  # keys have no order, so no column numbers
        yield number, fields, list(value.values())


def _check_has(names: Sequence[str], fields: _RowFields, where: str, unit: str) -> None:
    """Check that a row has the columns of the rows before it."""
    for field in fields.all():
        if field.name not in names:
            others = {one.name for one in fields.all()}
            free = [name for name in names if name not in others]
            near = did_you_mean(field.name, free[:MAX_SUGGESTION_NAMES])
            known = join_names([repr(name) for name in names])
            raise UserError(
                f"{where}, {field}: missing, though earlier {unit}s have it{near}; columns: {known}"
            )


def _text_rows(lines: Iterator[str]) -> Iterator[_Row]:
    fields = _RowFields(text=(Field(0, "text"),), pair=None, label=None)
    for number, line in enumerate(lines, start=1):
        yield number, fields, [without_line_end(line)]


def _parquet_rows(path: Path, columns: ColumnSettings) -> Iterator[_Row]:
    from heedful.reading import parquet  # lazy import of pyarrow

    names = parquet.column_names(path)
    fields = _fields(columns, str(path), names, len(names))
    used = fields.all()
    indices = [field.index for field in used]
    rows = parquet.read_rows(path, [unique(field.name, str(path), names) for field in used])
    for number, cells in enumerate(rows, start=1):
        yield number, fields, dict(zip(indices, cells, strict=True))


def _fields(
    columns: ColumnSettings, where: str, names: Sequence[str] | None, width: int
) -> _RowFields:
    """Look up the columns to read by name, or by number among the first ``width``."""
    pair, label = columns.text_pair, columns.label
    return _RowFields(
        text=find_fields(columns.text, where, names, width),
        pair=None if pair is None else find_fields(pair, where, names, width),
        label=None if label is None else find_field(label, where, names, width),
    )
