"""Check and convert the settings that Python callers pass; the command line parses its own."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from heedful.errors import MAX_NAME_LENGTH, UserError, shorten, unknown_name


def checked_values(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings converted to the types of their class.

    A list becomes a tuple, a file name a path, a path a name where the class has names, and a numpy
    number a Python number.

    Args:
        kind: the settings class.
        values: the settings, by field name.

    Raises:
        UserError: a value has the wrong type, or is not one of the allowed choices.
    """
    hints = _hints(kind)
    return {name: checked_value(name, value, hints[name]) for name, value in values.items()}


_hints = lru_cache(maxsize=64)(get_type_hints)  # get_type_hints is slow


def checked_value(name: str, value: Any, hint: Any) -> Any:
    """Return a value converted to an annotated type; see `checked_values`."""
    if getattr(value, "shape", None) == ():  # a numpy or torch number
        value = value.item()
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(value, tuple | list):
        return tuple(checked_value(name, item, parts[0]) for item in value)
    if origin is Literal and isinstance(value, str) and value not in parts:
        raise unknown_name(name, value, parts)
    if isinstance(value, os.PathLike) and str in (hint, *parts):  # a model may be a folder
        return os.fspath(value)
    if not _fits(value, hint):
        shown = shorten(repr(value), MAX_NAME_LENGTH)
        raise UserError(f"{name} is {shown}: expected {_words(hint)}")
    if Path in (hint, *parts) and isinstance(value, str | os.PathLike):
        if value == "":  # Path("") would be the current folder
            raise UserError(f"{name} is empty: expected a path")
        return Path(os.path.expanduser(value))  # otherwise a folder named ~ would be created
    return value


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value has an annotated type."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is Path:
        return isinstance(value, str | os.PathLike)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _words(hint: Any) -> str:
    """Describe a type in words."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(one) for one in get_args(hint))
    if origin is Literal:
        return ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        return f"a list of {_words(get_args(hint)[0])}"
    names = {int: "a whole number", float: "a number", str: "text", bool: "True or False"}
    return {**names, Path: "a path", NoneType: "None"}.get(hint, str(hint))
