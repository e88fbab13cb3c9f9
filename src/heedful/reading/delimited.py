"""Lines to rows of CSV and TSV, each with the number of its first line.

CSV is RFC 4180 and is parsed by the standard library in strict mode. Real files contain quotes that
never close; a parser that trusts them silently swallows the rows up to the next quote. So if a
record does not parse, or spans several lines and has the wrong number of fields, its first line is
read again by itself, with quotes as plain characters, and its other lines are put back. If that
does not give the expected number of fields either, it is an error.
"""

import csv
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, tee

from heedful.errors import UserError
from heedful.reading.lines import MAX_LINE_BYTES

Row = tuple[int, list[str]]

MAX_RECORD_CHARS = MAX_LINE_BYTES
"""How far to look for a closing quote, and so the longest record over several lines."""


@dataclass(frozen=True, slots=True)
class _First:
    """The first row of a file, which says how many fields each row has."""

    number: int
    width: int

    def check(self, row: list[str], number: int, source: str) -> None:
        if len(row) != self.width:
            raise UserError(
                f"{source}, line {number}: {_fields(row)}, expected {self.width} as in line "
                f"{self.number}"
            )


def tsv_rows(lines: Iterator[str], source: str, *, keep_empty: bool = False) -> Iterator[Row]:
    """Yield the rows of tab-separated text, where quotes are plain characters.

    Args:
        lines: of the text.
        source: how the file is named in messages.
        keep_empty: see `csv_rows`.

    Raises:
        UserError: a row does not have as many fields as the first.
    """
    first: _First | None = None
    last = 0
    for number, line in enumerate(lines, start=1):
        text = without_line_end(line)
        if not text:
            continue
        row = text.split("\t")
        first = first or _First(number, len(row))
        first.check(row, number, source)
        if keep_empty:
            yield from _empty_rows(first, last, number)
        yield number, row
        last = number


def named_delimiter(line: str) -> str | None:
    """Return what a spreadsheet's first line names, as ``sep=;``; None if it is another line."""
    named = _NAMED.fullmatch(without_line_end(line))
    return None if named is None else named[1]


_NAMED = re.compile(r'"?sep=([,;\t|])"?')


def delimiter_of(lines: Iterator[str], *, header: bool = True) -> str:
    """Return what parts the columns of a CSV file.

    That is the comma. Spreadsheets that write 0,5 for a half put semicolons between columns, and
    some programs tabs or bars: these count where the header has no comma outside quotes. Without a
    header semicolons and tabs count where they part each of the first rows into as many columns,
    and commas do not.

    Args:
        lines: of the file.
        header: whether the first one names columns.
    """
    for mark in ",;\t|" if header else ",;\t":
        lines, again = tee(lines)
        reader = csv.reader(_LineBuffer(again), delimiter=mark)
        with suppress(csv.Error):
            widths = [len(row) for row in islice(filter(None, reader), 1 if header else _SEEN)]
            if (header or len(widths) > 1) and len({*widths}) == 1 and widths[0] > 1:
                return mark
    return ","


_SEEN = 20
"""Rows without a header that show what parts columns; of a single one that cannot be told."""


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
        lines: of the text.
        source: how the file is named in messages.
        delimiter: what stands there for the comma.
        keep_empty: take an empty line as a row where rows have one field, but for the first lines
            of the file and the last, which nobody means as rows.
        start: the number of the first line.

    Raises:
        UserError: a row does not have as many fields as the first, with or without its quotes, or
            there is a space beside those of a field, or a carriage return outside quotes.
    """
    # The limit holds for the whole process, so it is only raised; we limit lines and records.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * MAX_RECORD_CHARS))
    buffer = _LineBuffer(lines, start)
    reader = csv.reader(buffer, delimiter=delimiter, strict=True)
    first: _First | None = None
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
            first = first or _First(number, len(row))
            if '"' in buffer.taken[0]:
                record = "" if plain else "".join(buffer.taken)
                _check_quotes(row, record, first.width, f"{source}, line {number}")
            first.check(row, number, source)
            if keep_empty:
                yield from _empty_rows(first, last, number)
            yield number, row
            last = number + len(buffer.taken) - 1


def _empty_rows(first: _First, last: int, number: int) -> Iterator[Row]:
    """Yield the rows of the empty lines between two others, if rows have one field."""
    if first.width == 1 and last:
        for empty in range(last + 1, number):
            yield empty, [""]


def _check_quotes(row: list[str], record: str, width: int, where: str) -> None:
    """Refuse a cell in quotes beside which there is a space, for then they are plain characters.

    Args:
        row: the cells.
        record: the lines that they were read from; empty if all quotes are plain characters.
        width: how many cells there should be.
        where: what errors call the record.

    Raises:
        UserError: the cell is in quotes as a whole, or begins with one in a row of another width.
    """
    spaced = _SPACED if len(row) == width else _SPACED_START
    position = 0
    for cell in row:
        held = record.startswith('"', position)
        if not held and spaced.fullmatch(cell) and cell != cell.strip(" "):
            raise UserError(
                f"{where}: a space stands beside the quotes of a field, so they do not quote it; "
                "delete the space"
            )
        position += len(cell) + 1 + (2 + cell.count('"') if held else 0)


_SPACED = re.compile(r' *"(?:[^"]|"")*" *')
_SPACED_START = re.compile(r' +".*', re.DOTALL)


def _first_line(
    buffer: "_LineBuffer",
    record: list[str] | None,
    first: _First | None,
    delimiter: str,
    where: str,
) -> list[str]:
    """Read the first line of a record again, with quotes as plain characters."""
    row = without_line_end(buffer.taken[0]).split(delimiter)
    if first is not None and len(row) != first.width:
        if record is not None:
            return record  # its quotes balance; only the number of fields is wrong
        raise UserError(
            f"{where}: quotes do not balance, or do not stand at both ends of a field; with quotes "
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
    """Lines of the file for the parser, kept until their record is accepted."""

    def __init__(self, lines: Iterator[str], start: int = 1) -> None:
        self.taken: list[str] = []
        self._lines = lines
        self._back: deque[str] = deque()
        self._number = start
        self._size = 0
        self._read_chars = 0
        self._reread_chars = 0

    def __iter__(self) -> "_LineBuffer":
        return self

    def __next__(self) -> str:
        if self._size > MAX_RECORD_CHARS:
            raise StopIteration  # the parser sees a file that ends inside quotes
        line = self._back.popleft() if self._back else next(self._lines)
        self.taken.append(line)
        self._size += len(line)
        return line

    def next_record(self) -> int:
        """Drop the lines of the last record; return the number of the next line."""
        self._number += len(self.taken)
        self._read_chars += self._size
        self.taken.clear()
        self._size = 0
        return self._number

    def put_back(self) -> bool:
        """Put back all lines but the record's first; false if too much was read in vain.

        The limit keeps the time for hostile input linear: without it, each line such as ``a","b``
        would be followed to the end of the file.
        """
        self._back.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]
        self._reread_chars += self._size - len(self.taken[0])
        self._size = len(self.taken[0])
        return self._reread_chars <= 2 * (MAX_RECORD_CHARS + self._read_chars)


def without_line_end(line: str) -> str:
    """Return a line without its LF or CRLF, or the CRCRLF of programs that end lines twice."""
    return line.removesuffix("\n").rstrip("\r")


def _fields(row: list[str]) -> str:
    return f"{len(row)} field{'s' if len(row) != 1 else ''}"
