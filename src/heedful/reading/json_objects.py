"""JSON to values with exact errors: a whole document, or an object on each line."""

import json
from collections.abc import Iterator
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import kind_of
from heedful.reading.lines import read_lines, source_name


def parse_json(text: str, where: str) -> object:
    """Parse one JSON value.

    Args:
        text: the whole of it, on one line or many.
        where: the file, and the line if it is one of many, for messages.

    Raises:
        UserError: it is not JSON, with line and column.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise UserError(f"{where}, {line}column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise UserError(f"{where}: JSON nested too deeply") from None
    except ValueError as error:  # a constant, or a number of thousands of digits
        raise UserError(f"{where}: not JSON: {str(error).partition(';')[0]}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number and the object of each line of a file; blank lines are passed over.

    Raises:
        UserError: a line is not a JSON object, or see `heedful.reading.lines.read_lines`.
    """
    source = source_name(path)
    for number, line in enumerate(read_lines(path), start=1):
        text = without_line_end(line)
        if not text or text.isspace():
            continue
        where = f"{source}, line {number}"
        value = parse_json(text, where)
        if not isinstance(value, dict):
            raise UserError(f"{where}: expected a JSON object, found {kind_of(value)}")
        yield number, value
