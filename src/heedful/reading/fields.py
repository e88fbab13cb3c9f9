"""Columns of a row: found by name or number, and read as text or labels with exact errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heedful.errors import UserError, did_you_mean, listed
from heedful.reading.lines import MAX_LINE_BYTES

Values = Sequence[object] | Mapping[int, object]
"""The values of a row by their place, from 0."""

_NEAR_AMONG = 1000
"""Columns among which a misspelt one is looked for: more would take seconds."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table: its place from 0 and what it is called in messages."""

    place: int
    name: str


def find_fields(
    given: str, where: str, names: Sequence[str] | None, width: int
) -> tuple[Field, ...]:
    """Find one column, or several whose names or numbers stand between commas.

    Args:
        given: what the user asked for.
        where: the file, and line if it has its own names, for messages.
        names: the columns' names; None when they have none.
        width: how many columns are numbered; 0 where numbers mean nothing.

    Raises:
        UserError: a column is not there, or its name stands twice.
    """
    if names is not None and given in names:  # a name may hold a comma itself
        return (find_field(given, where, names, width),)
    return tuple(find_field(part.strip(), where, names, width) for part in given.split(","))


def find_field(given: str, where: str, names: Sequence[str] | None, width: int) -> Field:
    """Find one column; arguments and errors are those of `find_fields`."""
    if names is not None and given in names:
        return Field(names.index(unique(given, where, names)), given)
    if width and given.isascii() and given.isdecimal():
        place = int(given[:9]) - 1  # no file has more columns, and a longer number is slow to read
        if 0 <= place < width:
            return Field(place, given if names is None else names[place])
        raise UserError(f"{where}: no column {given}; columns are numbered 1 to {width}")
    if names is None:
        numbered = f"read without a header, columns are numbered 1 to {width}"
        raise UserError(f"{where}: no column {given!r}; {numbered}")
    near = did_you_mean(given, names[:_NEAR_AMONG])
    columns = listed([repr(name) for name in names])
    raise UserError(f"{where}: no column {given!r}{near}; columns: {columns}")


def unique(name: str, where: str, names: Sequence[str]) -> str:
    """Return a name that stands once among names, or say that it does not."""
    if names.count(name) > 1:
        raise UserError(f"{where}: {names.count(name)} columns are named {name!r}")
    return name


def read_text(values: Values, fields: Sequence[Field], allow_empty: bool) -> str:
    """Join the columns' texts with one space, leaving out those that are empty.

    Raises:
        UserError: a value is not text, or the whole is blank and ``allow_empty`` is false.
    """
    if len(fields) == 1:
        text = _string(values, fields[0])
    else:
        parts = [_string(values, field) for field in fields]
        text = " ".join(part for part in parts if part and not part.isspace())
    if not allow_empty and (not text or text.isspace()):
        raise UserError(f"{_named(fields)}: empty text")
    return text


def _string(values: Values, field: Field) -> str:
    value = values[field.place]
    if value is None:  # how JSON and Parquet write the empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{_named([field])}: expected text, found {kind_of(value)}")
    if len(value) > MAX_LINE_BYTES:
        raise UserError(f"{_named([field])}: text longer than {MAX_LINE_BYTES:,} characters")
    return _encodable(value, field)


def read_labels(values: Values, field: Field, separator: str | None) -> tuple[str, ...]:
    """Return the labels of a row as written, each once and in order.

    A list gives its items and a separator splits a string, so that there may be none or several;
    anything else is one label. Numbers and truth values of JSON are written as JSON writes them.

    Raises:
        UserError: a label is empty, null, or neither a string, a number nor a truth value.
    """
    value = values[field.place]
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
        raise UserError(f"{_named([field])}: expected a label, found {kind_of(value)}")
    if not value or value.isspace():
        raise UserError(f"{_named([field])}: empty label")
    return _encodable(value, field)


def _encodable(text: str, field: Field) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise UserError(
                f"{_named([field])}: half of a surrogate pair (\\u{code:04x}) is not a character"
            ) from None
    return text


def _named(fields: Sequence[Field]) -> str:
    names = ", ".join(repr(field.name) for field in fields)
    return f"column{'s' if len(fields) > 1 else ''} {names}"


def kind_of(value: object) -> str:
    """Return what a value is, in the words of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    kinds = {str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a value of type {type(value).__name__}")
