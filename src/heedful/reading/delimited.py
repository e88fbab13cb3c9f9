"""Parse lines into rows of CSV and TSV, each with the number of its first line.

CSV follows RFC 4180 and is parsed by the standard library in strict mode. Real files contain
unclosed quotes. A parser that trusts them silently swallows all rows up to the next quote. So a
record is suspect if it does not parse, or if it spans several lines and has the wrong number of
fields. Its first line is then parsed again alone, with quotes as plain characters, and its other
lines are put back. If the number of fields is still wrong, that is an error.
"""

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, tee

from heedful.errors import UserError
from heedful.reading.lines import MAX_LINE_BYTES

Row = tuple[int, list[str]]

MAX_RECORD_CHARS = MAX_LINE_BYTES
"""Search limit for a closing quote, and so the maximum length of a multi-line record."""


@dataclass(frozen=True, slots=True)
class _FirstRow:
    """The first row of a file, which determines the number of fields of each row."""

    number: int
    width: int

    def check(self, row: list[str], number: int, source: str) -> None:
        if len(row) != self.width:
            raise UserError(
                f"{source}, line {number}: {_fields(row)}, expected {self.width} as in line "
                f"{self.number}"
            )


def tsv_rows(lines: Iterator[str], source: str, *, keep_empty: bool = False) -> Iterator[Row]:
    """Yield the rows of tab-separated text. Quotes are plain characters.

    Args:
        lines: the lines of the text.
        source: the file's name in messages.
        keep_empty: see `csv_rows`.

    Raises:
        UserError: a row does not have as many fields as the first row.
    """
    first: _FirstRow | None = None
    last = 0
    for number, line in enumerate(lines, start=1):
        text = without_line_end(line)
        if not text:
            continue
        row = text.split("\t")
        first = first or _FirstRow(number, len(row))
        first.check(row, number, source)
        if keep_empty:
            yield from _empty_rows(first, last, number)
        yield number, row
        last = number


def named_delimiter(line: str) -> str | None:
    """Return the delimiter from a spreadsheet's first line such as ``sep=;``, else None."""
    match = _SEP_LINE.fullmatch(without_line_end(line))
    return None if match is None else match[1]


_SEP_LINE = re.compile(r'"?sep=([,;\t|])"?')


def delimiter_of(lines: Iterator[str], *, header: bool = True) -> str:
    """Return the delimiter of a CSV file.

    The default is the comma. Spreadsheets in locales with a decimal comma use semicolons, and some
    programs use tabs or bars. With a header, these count if it has no comma outside quotes. Without
    a header, semicolons and tabs count if they split the first rows into equally many columns and
    commas do not.

    Args:
        lines: the lines of the file.
        header: whether the first line is a header.
    """
    _raise_field_limit()
    for mark in ",;\t|" if header else ",;\t":
        lines, lookahead = tee(lines)
        reader = csv.reader(_LineBuffer(lookahead), delimiter=mark)
        with suppress(csv.Error):
            widths = [
                len(row) for row in islice(filter(None, reader), 1 if header else _INSPECTED_ROWS)
            ]
            if (header or len(widths) > 1) and len({*widths}) == 1 and widths[0] > 1:
                return mark
    return ","


_INSPECTED_ROWS = 20
"""Number of rows to infer the delimiter from, without a header. A single row is not enough."""


def _raise_field_limit() -> None:
    # This limit applies to the whole process, so only raise it. We limit lines and records here.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * MAX_RECORD_CHARS))


def csv_rows(
    lines: Iterator[str],
    source: str,
    *,
    delimiter: str = ",",
    keep_empty: bool = False,
    start: int = 1,
) -> Iterator[Row]:
    """Yield the rows of comma-separated text. Empty lines between records are skipped.

    Args:
        lines: the lines of the text.
        source: the file's name in messages.
        delimiter: the field delimiter.
        keep_empty: whether an empty line is a row if rows have one field. Empty lines at the start
            or end of the file never are.
        start: the number of the first line.

    Raises:
        UserError: a row does not have as many fields as the first row, with or without its quotes;
            a space is next to the quotes of a field; or a carriage return is outside quotes.
    """
    _raise_field_limit()
    buffer = _LineBuffer(lines, start)
    reader = csv.reader(buffer, delimiter=delimiter, strict=True)
    first: _FirstRow | None = None
    last = 0
    while True:
        number = buffer.next_record()
        row: list[str] | None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if len(buffer.taken) == 1 and str(error).startswith("new-line"):
                raise UserError(
                    f"{source}, line {number}: a carriage return outside quotes; "
                    "lines end in LF or CRLF"
                ) from None
            row = None
        plain = False
        if row is None or (len(buffer.taken) > 1 and first is not None and len(row) != first.width):
            parsed = row
            row = _first_line(buffer, row, first, delimiter, f"{source}, line {number}")
            plain = row is not parsed
        if row:
            first = first or _FirstRow(number, len(row))
            if '"' in buffer.taken[0]:
                record = "" if plain else "".join(buffer.taken)
                _check_quotes(row, record, first.width, f"{source}, line {number}")
            first.check(row, number, source)
            if keep_empty:
                yield from _empty_rows(first, last, number)
            yield number, row
            last = number + len(buffer.taken) - 1


def _empty_rows(first: _FirstRow, last: int, number: int) -> Iterator[Row]:
    """Yield a row for each empty line between two rows, if rows have one field."""
    if first.width == 1 and last:
        for empty in range(last + 1, number):
            yield empty, [""]


def _check_quotes(row: list[str], record: str, width: int, where: str) -> None:
    """Refuse a cell with a space next to its quotes, which makes them plain characters.

    Args:
        row: the cells.
        record: the lines of the row; empty if all quotes are plain characters.
        width: the expected number of cells.
        where: the record's name in messages.

    Raises:
        UserError: the whole cell is in quotes, or it begins with a quote in a row of wrong width.
    """
    spaced = _SPACED_QUOTES if len(row) == width else _SPACED_QUOTE_START
    position = 0
    for cell in row:
        quoted = record.startswith('"', position)
        if not quoted and spaced.fullmatch(cell) and cell != cell.strip(" "):
            raise UserError(
                f"{where}: there is a space next to the quotes of a field, so they do not quote "
                "it; delete the space"
            )
        position += len(cell) + 1 + (2 + cell.count('"') if quoted else 0)


_SPACED_QUOTES = re.compile(r' *"(?:[^"]|"")*" *')
_SPACED_QUOTE_START = re.compile(r' +".*', re.DOTALL)


def _first_line(
    buffer: "_LineBuffer",
    record: list[str] | None,
    first: _FirstRow | None,
    delimiter: str,
    where: str,
) -> list[str]:
    """Parse the first line of a record again, with quotes as plain characters."""
    row = without_line_end(buffer.taken[0]).split(delimiter)
    if first is not None and len(row) != first.width:
        if record is not None:
            return record  # balanced quotes; only the number of fields is wrong
        raise UserError(
            f"{where}: quotes do not balance, or are not at both ends of a field; with quotes "
            f"as plain characters the line has {_fields(row)}, expected {first.width} as in line "
            f"{first.number}"
        )
    if not buffer.put_back():
        raise UserError(
            f"{where}: too many quotes do not balance up to this line; if quotes are plain "
            "characters, the format is TSV"
        )
    return row


class _LineBuffer:
    """Lines of the file for the parser, buffered until their record is accepted."""

    def __init__(self, lines: Iterator[str], start: int = 1) -> None:
        self.taken: list[str] = []
        self._lines = lines
        self._pushed_back: deque[str] = deque()
        self._number = start
        self._record_chars = 0
        self._read_chars = 0
        self._reread_chars = 0

    def __iter__(self) -> "_LineBuffer":
        return self

    def __next__(self) -> str:
        if self._record_chars > MAX_RECORD_CHARS:
            raise StopIteration  # to the parser, the file ends inside quotes
        line = self._pushed_back.popleft() if self._pushed_back else next(self._lines)
        self.taken.append(line)
        self._record_chars += len(line)
        return line

    def next_record(self) -> int:
        """Drop the lines of the last record; return the number of the next line."""
        self._number += len(self.taken)
        self._read_chars += self._record_chars
        self.taken.clear()
        self._record_chars = 0
        return self._number

    def put_back(self) -> bool:
        """Put back all lines except the record's first; return False at the re-read limit.

        The limit keeps the time for hostile input linear. Without it, each line such as ``a","b``
        would cause a scan to the end of the file.
        """
        self._pushed_back.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]
        self._reread_chars += self._record_chars - len(self.taken[0])
        self._record_chars = len(self.taken[0])
        return self._reread_chars <= 2 * (MAX_RECORD_CHARS + self._read_chars)


def split_values(option: str, text: str) -> list[str]:
    """Split an option's values at commas. As in CSV, a value in quotes may contain commas.

    Raises:
        UserError: the text is not one line.
    """
    # Spaces before a value belong to it, since a label may have them, but not before a quote.
    try:
        rows = list(csv.reader([text], skipinitialspace='"' in text))
    except csv.Error:
        raise UserError(f"{option} {text!r}: a line break must be in double quotes") from None
    return rows[0] or [""]


def join_values(values: Iterable[str]) -> str:
    """Join values with commas, so that `split_values` splits them.

    All are in quotes if one has to be.
    """
    row, line, quoted = [*values], io.StringIO(), io.StringIO()
    csv.writer(line, lineterminator="").writerow(row)
    csv.writer(quoted, csv.unix_dialect, lineterminator="").writerow(row)
    return (quoted if '"' in line.getvalue() else line).getvalue()


def without_line_end(line: str) -> str:
    """Return a line without its LF, CRLF, or the CRCRLF that some programs write."""
    return line.removesuffix("\n").rstrip("\r")


def _fields(row: list[str]) -> str:
    return f"{len(row)} field{'s' if len(row) != 1 else ''}"
