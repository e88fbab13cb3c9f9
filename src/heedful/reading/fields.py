"""Columns of a row: looked up by name or number, and read as text or labels with exact errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heedful.errors import UserError, did_you_mean, listed
from heedful.reading.lines import MAX_LINE_BYTES

Cells = Sequence[object] | Mapping[int, object]
"""The cells of a row by the index of their column, from 0."""

_NEAR_AMONG = 1000
"""How many columns a misspelt name is compared with: more would take seconds."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table: its index from 0 and its name in messages."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"column {self.name!r}"


def find_fields(
    columns: str, where: str, names: Sequence[str] | None, width: int
) -> tuple[Field, ...]:
    """Find one column, or several that are separated by commas.

    Args:
        columns: names or numbers, as the user typed them.
        where: the file, and the line if it has names of its own, for messages.
        names: the columns' names; None if they have none.
        width: how many columns are numbered; 0 if numbers mean nothing.

    Raises:
        UserError: there is no such column, or there are two of that name.
    """
    if names is not None and columns in names:  # a name may contain a comma
        return (find_field(columns, where, names, width),)
    return tuple(find_field(part.strip(), where, names, width) for part in columns.split(","))


def find_field(column: str, where: str, names: Sequence[str] | None, width: int) -> Field:
    """Find one column; arguments and errors are those of `find_fields`."""
    if names is not None and column in names:
        return Field(names.index(unique(column, where, names)), column)
    if width and column.isascii() and column.isdecimal():
        index = int(column[:9]) - 1  # no file has more columns, and a longer number is slow to read
        if 0 <= index < width:
            return Field(index, column if names is None else names[index])
        raise UserError(f"{where}: no column {column}; columns are numbered 1 to {width}")
    if names is None:
        numbered = f"read without a header, columns are numbered 1 to {width}"
        raise UserError(f"{where}: no column {column!r}; {numbered}")
    near = did_you_mean(column, names[:_NEAR_AMONG])
    known = listed([repr(name) for name in names])
    raise UserError(f"{where}: no column {column!r}{near}; columns: {known}")


def unique(name: str, where: str, names: Sequence[str]) -> str:
    """Return the name of one column; refuse a name that several columns have."""
    if names.count(name) > 1:
        raise UserError(f"{where}: {names.count(name)} columns are named {name!r}")
    return name


def read_text(cells: Cells, fields: Sequence[Field], allow_empty: bool) -> str:
    """Join the columns' texts with one space, without those that are empty.

    Raises:
        UserError: a cell is not text, or the whole is blank and ``allow_empty`` is false.
    """
    if len(fields) == 1:
        text = _string(cells, fields[0])
    else:
        parts = [_string(cells, field) for field in fields]
        text = " ".join(part for part in parts if part and not part.isspace())
    if not allow_empty and (not text or text.isspace()):
        names = ", ".join(repr(field.name) for field in fields)
        raise UserError(f"column{'s' if len(fields) > 1 else ''} {names}: empty text")
    return text


def _string(cells: Cells, field: Field) -> str:
    value = cells[field.index]
    if value is None:  # how JSON and Parquet write the empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{field}: expected text, found {kind_of(value)}")
    if len(value) > MAX_LINE_BYTES:
        raise UserError(f"{field}: text longer than {MAX_LINE_BYTES:,} characters")
    check_characters(value, field)
    return value


def read_labels(cells: Cells, field: Field, separator: str | None) -> tuple[str, ...]:
    """Return the labels of a row as written, each once and in order.

    There may be none or several in a list, or in a string that is split at the separator; anything
    else is one label. JSON's numbers and booleans are written as JSON writes them.

    Raises:
        UserError: a label is empty, null, or neither a string, a number nor a boolean.
    """
    value = cells[field.index]
    if isinstance(value, list):
        items: list[object] = value
    elif isinstance(value, str) and separator is not None:
        items = [part.strip() for part in value.split(separator)] if value.strip() else []
    else:
        items = [value]
    return tuple(dict.fromkeys(_label(item, field) for item in items))


def _label(value: object, field: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"{field}: expected a label, found {kind_of(value)}")
    if not value or value.isspace():
        raise UserError(f"{field}: empty label")
    check_characters(value, field)
    return value


def check_characters(text: str, where: object) -> None:
    """Refuse text that UTF-8 cannot write: half of a surrogate pair, which JSON lets through.

    Raises:
        UserError: there is one, with its code.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise UserError(
            f"{where}: half of a surrogate pair (\\u{code:04x}) is not a character"
        ) from None


def kind_of(value: object) -> str:
    """Return what kind of value it is, as JSON calls it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    kinds = {str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a value of type {type(value).__name__}")
