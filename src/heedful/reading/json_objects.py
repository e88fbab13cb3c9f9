"""Read JSON objects or table rows from a user's file, and check their values on access."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from heedful.errors import UserError, did_you_mean, join_names
from heedful.files import parse_json, unique_keys
from heedful.reading.compressed import extension_of
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import check_characters, kind_of, unique
from heedful.reading.lines import UTF8, read_lines, source_name

MAX_DOCUMENT_BYTES = 2**30
"""Maximum size of a document. SQuAD has 42 MB."""


# Duplicate keys of an object are errors. ``NaN`` and ``Infinity`` are not JSON, but Python writes
# them. They are refused only when their key is read, because files have them under other keys. The
# decoder is created once. Creating one per line would take longer than decoding the line.
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


def read_objects(path: Path, encoding: str = UTF8) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the objects of a file, each with its number from 1; `unit_of` gives the unit.

    Each line has one object, and blank lines are skipped. A ``.json`` file is a single document
    instead, which is read into memory. It is an array of objects, an object with such an array as
    ``data``, or a sequence of objects. Rows of Parquet files are also objects.

    Raises:
        UserError: a value is not an object, several columns of a Parquet file have the same name,
            or see `heedful.reading.lines.read_lines`.
    """
    source, unit = source_name(path), unit_of(path)
    if extension_of(path) == ".parquet":
        values = _table_rows(path)
    else:
        values = _rows(path, encoding) if unit == "row" else _lines(path, encoding)
    for number, value in values:
        if not isinstance(value, dict):
            kind = kind_of(value)
            hint = _ARRAY if unit == "line" and isinstance(value, list) else ""
            raise UserError(
                f"{source}, {unit} {number}: expected a JSON object, found {kind}{hint}"
            )
        yield number, value


def unit_of(path: Path) -> str:
    """Return the unit of object numbers: rows of a document or table, or lines."""
    return "row" if extension_of(path) in (".json", ".parquet") else "line"


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, object]]:
    source = source_name(path)
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        text = without_line_end(line)
        if text.strip() == "[":
            raise UserError(f"{source}, line {number}: not a JSON object{_ARRAY}")
        if text and not text.isspace():
            yield number, parse_json(text, source, number, decode=_DECODER.decode)


def _rows(path: Path, encoding: str) -> Iterator[tuple[int, object]]:
    text = "".join(_document(path, encoding))
    values = parse_json(text, source_name(path), decode=_decode_all)
    assert isinstance(values, list)
    match values:
        case [list(rows)]:
            values = rows
        case [{"data": list(rows)}] if all(isinstance(row, dict) for row in rows):
            values = rows
        case [dict(columns)] if _are_columns([*columns.values()]):
            raise UserError(
                f"{source_name(path)}: one object of columns; give one object a row, as pandas "
                "writes them with to_json(..., orient='records')"
            )
    return enumerate(values, start=1)


def _are_columns(values: list[object]) -> bool:
    """Return whether values look like columns: equally long lists, or dicts with the same keys."""
    if len(values) < 2:
        return False
    if all(isinstance(value, dict) for value in values):
        return len({tuple(cast("dict[str, object]", value)) for value in values}) == 1
    lists = [value for value in values if isinstance(value, list)]
    return len(lists) == len(values) and len({*map(len, lists)}) == 1


def _document(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a document, up to the size limit."""
    size = 0
    for line in read_lines(path, MAX_DOCUMENT_BYTES, encoding=encoding):
        size += len(line) if line.isascii() else len(line.encode("utf-8", "replace"))
        if size > MAX_DOCUMENT_BYTES:
            raise UserError(
                f"{source_name(path)}: longer than {MAX_DOCUMENT_BYTES:,} bytes; give JSON Lines"
            )
        yield line


_ARRAY = "; the name of a file that holds one array must end in .json"


def _table_rows(path: Path) -> Iterator[tuple[int, object]]:
    from heedful.reading import parquet  # lazy import of pyarrow

    names = parquet.column_names(path)
    for name in names:
        unique(name, str(path), names)
    for number, cells in enumerate(parquet.read_rows(path, names), start=1):
        yield number, dict(zip(names, map(_without_nulls, cells), strict=True))


def _without_nulls(value: object) -> object:
    """Drop keys with null values inside a cell, because all its objects have the same keys."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _decode_all(text: str) -> list[object]:
    """Return the concatenated JSON values of a text."""
    values = []
    position = _end_of_space(text, 0)
    while position < len(text):
        value, position = _DECODER.raw_decode(text, position)
        values.append(value)
        position = _end_of_space(text, position)
    return values


def _end_of_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


_SPACE = re.compile(r"[ \t\r\n]*")


# Each function below takes the object's location, for messages, and raises a UserError if the value
# is missing or of the wrong type.


def get_value(item: object, key: str, where: str) -> object:
    """Return the value of a key."""
    if not isinstance(item, Mapping):
        raise UserError(f"{where}: expected an object with {key!r}, found {kind_of(item)}")
    if key not in item:
        keys = join_names([repr(name) for name in item]) or "none"
        raise UserError(f"{where}: no {key!r}{did_you_mean(key, item)}; its keys: {keys}")
    return item[key]


def get_list(item: object, key: str, where: str) -> list[object]:
    """Return the list value of a key."""
    value = get_value(item, key, where)
    if not isinstance(value, list):
        raise UserError(f"{where}: {key!r}: expected a list, found {kind_of(value)}")
    return value


def get_objects(item: object, key: str, where: str) -> list[Mapping[str, object]]:
    """Return the value of a key, a list of objects."""
    items = get_list(item, key, where)
    for value in items:
        if not isinstance(value, dict):
            raise UserError(f"{where}: {key!r}: expected objects, found {kind_of(value)}")
    return cast("list[Mapping[str, object]]", items)


def get_text(item: object, key: str, where: str) -> str:
    """Return the string value of a key."""
    return as_text(get_value(item, key, where), f"{where}: {key!r}")


def get_int(item: object, key: str, where: str) -> int:
    """Return the integer value of a key."""
    value = get_value(item, key, where)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{where}: {key!r}: expected a whole number, found {kind_of(value)}")
    return value


def as_text(value: object, where: str) -> str:
    """Return a value, which must be a string."""
    if not isinstance(value, str):
        raise UserError(f"{where}: expected text, found {kind_of(value)}")
    check_characters(value, where)
    return value
