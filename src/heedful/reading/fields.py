"""Look up columns by name or number, and read their cells as text or labels with exact errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heedful.errors import UserError, did_you_mean, join_names
from heedful.reading.lines import MAX_LINE_BYTES

Cells = Sequence[object] | Mapping[int, object]
"""The cells of a row by column index, from 0."""

MAX_SUGGESTION_NAMES = 1000
"""Maximum columns to compare a misspelt name with. More would take seconds."""


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
    """Find one column, or several columns separated by commas.

    Args:
        columns: names or numbers, as the user typed them.
        where: the file, and the line if each line has its own column names, for messages.
        names: the column names; None if there are none.
        width: number of numbered columns; 0 if columns cannot be given by number.

    Raises:
        UserError: there is no such column, or several columns have that name.
    """
    if names is not None and columns in names:  # a name may contain a comma
        return (find_field(columns, where, names, width),)
    return tuple(find_field(part.strip(), where, names, width) for part in columns.split(","))


def find_field(column: str, where: str, names: Sequence[str] | None, width: int) -> Field:
    """Find one column; see `find_fields` for arguments and errors."""
    if names is not None and column in names:
        return Field(names.index(unique(column, where, names)), column)
    if width and column.isascii() and column.isdecimal():
        # No file has more columns, and longer numbers are slow to parse.
        index = int(column[:9]) - 1
        if 0 <= index < width:
            return Field(index, column if names is None else names[index])
        raise UserError(f"{where}: no column {column}; columns are numbered 1 to {width}")
    if names is None:
        numbered = f"read without a header, columns are numbered 1 to {width}"
        raise UserError(f"{where}: no column {column!r}; {numbered}")
    near = did_you_mean(column, names[:MAX_SUGGESTION_NAMES])
    known = join_names([repr(name) for name in names])
    raise UserError(f"{where}: no column {column!r}{near}; columns: {known}")


def unique(name: str, where: str, names: Sequence[str]) -> str:
    """Return a column's name; refuse a name that several columns have."""
    if names.count(name) > 1:
        raise UserError(f"{where}: {names.count(name)} columns are named {name!r}")
    return name


def read_text(cells: Cells, fields: Sequence[Field], allow_empty: bool) -> str:
    """Join the columns' non-empty texts with single spaces.

    Raises:
        UserError: a cell is not text, or the result is blank and ``allow_empty`` is false.
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
    if value is None:  # an empty cell in JSON and Parquet
        return ""
    if not isinstance(value, str):
        raise UserError(f"{field}: expected text, found {kind_of(value)}")
    if len(value) > MAX_LINE_BYTES:
        raise UserError(f"{field}: text longer than {MAX_LINE_BYTES:,} characters")
    check_characters(value, field)
    return value


def read_labels(cells: Cells, field: Field, separator: str | None) -> tuple[str, ...]:
    """Return the labels of a row as written, without duplicates, in order.

    A list, or a string that is split at the separator, may have any number of labels. Any other
    value is one label. Numbers and booleans are written as in JSON.

    Raises:
        UserError: a label is empty, null, or not a string, number or boolean.
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
    """Refuse text that UTF-8 cannot encode: an unpaired surrogate, which JSON allows.

    Raises:
        UserError: the text has an unpaired surrogate. The message has its code.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise UserError(f"{where}: a lone surrogate (\\u{code:04x}) is not a character") from None


def kind_of(value: object) -> str:
    """Return the kind of a value in JSON terms, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    kinds = {str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a value of type {type(value).__name__}")
