"""JSON objects of a user's file, their values checked as they are taken out."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from heedful.errors import UserError, did_you_mean, listed
from heedful.files import parse_json, unique_keys
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import check_characters, kind_of
from heedful.reading.lines import MAX_LINE_BYTES, UTF8, read_lines, source_name


def parse_user_json(text: str, where: str, line: int | None = None) -> object:
    """Parse one JSON value; ``NaN``, ``Infinity`` and equal keys of an object are errors, too.

    Raises:
        UserError: see `heedful.files.parse_json`.
    """
    return parse_json(text, where, line, decode=_DECODER.decode)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


# Made once: a decoder for each line would take longer than what it decodes.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_keys)


def read_objects(path: Path, encoding: str = UTF8) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the line number and the object of each line of a file; blank lines are skipped.

    Raises:
        UserError: a line is not a JSON object, or see `heedful.reading.lines.read_lines`.
    """
    source = source_name(path)
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        text = without_line_end(line)
        if not text or text.isspace():
            continue
        yield number, _object(text, source, number)


def read_spread_objects(
    path: Path, encoding: str = UTF8
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the first line number and the object of each object of a file.

    An object may go over several lines; one begins on a new line.

    Raises:
        UserError: what stands there is not a JSON object, or does not end; or see
            `heedful.reading.lines.read_lines`.
    """
    source = source_name(path)
    lines: list[str] = []
    start = depth = size = 0
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        if not lines:
            if line.isspace():
                continue
            start = number
        lines.append(line)
        size += len(line)
        depth += sum(_DEPTHS.get(token, 0) for token in _TOKEN.findall(line))
        if size > MAX_LINE_BYTES:
            break
        if depth <= 0:
            yield start, _object("".join(lines), source, start)
            lines, depth, size = [], 0, 0
    if lines:
        raise UserError(
            f"{source}, line {start}: the object that begins here does not end"
            + (f" within {MAX_LINE_BYTES:,} characters" if size > MAX_LINE_BYTES else "")
        )


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]')
_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}


def _object(text: str, source: str, line: int) -> dict[str, object]:
    value = parse_user_json(text, source, line)
    if not isinstance(value, dict):
        raise UserError(f"{source}, line {line}: expected a JSON object, found {kind_of(value)}")
    return value


# Each of these takes where the object is, for messages, and raises a UserError if its value is
# missing or of another type.


def value_of(item: object, key: str, where: str) -> object:
    """Return the value of a key."""
    if not isinstance(item, Mapping):
        raise UserError(f"{where}: expected an object with {key!r}, found {kind_of(item)}")
    if key not in item:
        keys = listed([repr(name) for name in item]) or "none"
        raise UserError(f"{where}: no {key!r}{did_you_mean(key, item)}; its keys: {keys}")
    return item[key]


def list_of(item: object, key: str, where: str) -> list[object]:
    """Return the list of a key."""
    value = value_of(item, key, where)
    if not isinstance(value, list):
        raise UserError(f"{where}: {key!r}: expected a list, found {kind_of(value)}")
    return value


def objects_of(item: object, key: str, where: str) -> list[Mapping[str, object]]:
    """Return the list of objects of a key."""
    items = list_of(item, key, where)
    for value in items:
        if not isinstance(value, dict):
            raise UserError(f"{where}: {key!r}: expected objects, found {kind_of(value)}")
    return cast("list[Mapping[str, object]]", items)


def text_of(item: object, key: str, where: str) -> str:
    """Return the text of a key."""
    return as_text(value_of(item, key, where), f"{where}: {key!r}")


def number_of(item: object, key: str, where: str) -> int:
    """Return the whole number of a key."""
    value = value_of(item, key, where)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{where}: {key!r}: expected a whole number, found {kind_of(value)}")
    return value


def as_text(value: object, where: str) -> str:
    """Return a value that must be text."""
    if not isinstance(value, str):
        raise UserError(f"{where}: expected text, found {kind_of(value)}")
    check_characters(value, where)
    return value
