"""Command-line arguments that heedful handles differently from cyclopts.

``--config FILE.toml`` sets defaults, ``-`` is a value, and integer options reject fractions.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from cyclopts import App, Argument, ArgumentCollection
from cyclopts.config import Dict

from heedful.errors import UserError, did_you_mean

Source = Callable[[App, tuple[str, ...], ArgumentCollection], None]
"""Callback that cyclopts calls with a command's options before it converts their values."""

_WHOLE = re.compile(r"\s*[+-]?[\d_]+(\.0*)?\s*")


def split_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at ``--``; those from there on are not options."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end:]


def with_dashes(options: list[str]) -> list[str]:
    """Join a lone ``-`` to the option before it, because cyclopts would take it for an option."""
    joined: list[str] = []
    for option in options:
        if option == "-" and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += "=-"
        else:
            joined.append(option)
    return joined


def check_paths(options: list[str]) -> None:
    """Refuse an empty path, and ``-`` as an output path.

    An empty path, such as an unset shell variable, would mean the current folder. Many programs
    take ``-`` for standard output; here it would be a folder of that name.

    Raises:
        UserError: naming the option.
    """
    for option, after in zip(options, [*options[1:], None], strict=False):
        name, joined, value = option.partition("=")
        path = value if joined else after
        if name in _PATHS and path == "":
            raise UserError(f"{name} is empty: expected a path")
        if name in ("--out", "--to") and path == "-":
            raise UserError(
                f"{name} -: expected a path; `predict` and `explain` write to standard output "
                "without --out"
            )


_PATHS = {
    *("--against", "--api-key-file", "--config", "--context-file", "--corpus", "--data", "--dev"),
    *("--input", "--model", "--n-best", "--out", "--phrases", "--picture", "--predictions"),
    *("--results", "--teacher", "--to", "--train", "--vocabulary"),
}
"""Options that name files or folders."""


def with_home(options: list[str]) -> list[str]:
    """Expand ``~`` in paths, as shells do at the start of a word."""
    expanded: list[str] = []
    for before, option in zip([None, *options], options, strict=False):
        name, joined, value = option.partition("=")
        if joined and name in _PATHS:
            expanded.append(f"{name}={os.path.expanduser(value)}")
        else:
            expanded.append(os.path.expanduser(option) if before in _PATHS else option)
    return expanded


def _with_home(values: dict[str, Any]) -> dict[str, Any]:
    def home(value: Any) -> Any:
        if isinstance(value, list):
            return [home(one) for one in value]
        return os.path.expanduser(value) if isinstance(value, str) else value

    return {key: home(value) if f"--{key}" in _PATHS else value for key, value in values.items()}


def take_config(options: list[str]) -> tuple[Path | None, list[str]]:
    """Remove ``--config FILE`` from the options and return both.

    Raises:
        UserError: it names no file.
    """
    for at, option in enumerate(options):
        name, joined, file = option.partition("=")
        if name != "--config":
            continue
        if not joined:
            file = "".join(options[at + 1 : at + 2])
        if not file:
            raise UserError("--config needs a TOML file")
        return Path(file), options[:at] + options[at + (1 if joined else 2) :]
    return None, options


def defaults(path: Path) -> Source:
    """Return a source of defaults from a TOML file.

    Raises:
        UserError: the file is missing, not UTF-8, or not valid TOML.
    """
    try:
        values = _with_home(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        raise UserError(f"--config {path}: no such file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"--config {path}, line {line}: not UTF-8; give a TOML file saved as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"--config {path}: {error}") from None

    def source(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        nested = _without_negatives(path, values, arguments)
        for command in reversed(commands):  # where cyclopts looks for a command's options
            nested = {command: nested}
        Dict(data=nested, source=str(path))(app, commands, arguments)

    return source


def _without_negatives(
    path: Path, values: Mapping[str, Any], arguments: ArgumentCollection
) -> dict[str, Any]:
    """Return the values with ``no-header = true`` replaced by ``header = false``.

    cyclopts takes the negative name for an alias of the option and does not negate its value.

    Raises:
        UserError: such a value is not a boolean, both names are given, a key is not an option, a
            value is a section, or a list is given for a single value.
    """
    positive = {
        name.removeprefix("--"): argument.name.removeprefix("--")
        for argument in arguments
        for name in argument.negatives
    }
    options = {
        name.removeprefix("--"): argument for argument in arguments for name in argument.names
    }
    plain: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name in positive:
            if not isinstance(value, bool):
                raise UserError(f"--config {path}: {key} {value}: must be true or false")
            name, value = positive[name], not value
        if isinstance(value, dict):
            raise UserError(
                f"--config {path}: [{key}] is a section; write the options without sections, "
                "because all of them belong to one command"
            )
        if name not in options:
            near = did_you_mean(name, options)
            raise UserError(f"--config {path}: no option of this command is called {key!r}{near}")
        if name in plain:
            raise UserError(f"--config {path}: {name} is given twice, the second time as {key}")
        if isinstance(value, list):
            _check_list(f"--config {path}: {key}", value, options[name])
        plain[name] = value
    return plain


def _check_list(where: str, values: list[Any], option: Argument) -> None:
    """Refuse a list for an option that takes one value, and nested lists."""
    kinds = {get_origin(kind) or kind for kind in (option.hint, *get_args(option.hint))}
    if any(isinstance(value, list | dict) for value in values):
        raise UserError(f"{where}: a list may not contain lists or sections")
    if not kinds & {list, tuple}:
        joined = ",".join(map(str, values))
        how = f": write {joined!r}, with commas" if str in kinds else ""
        raise UserError(f"{where}: expected one value, not a list{how}")


def check_numbers(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse values that are not numbers, and fractions for integers, which cyclopts would round.

    Raises:
        UserError: naming the option and its value.
    """
    for argument in arguments:
        kinds = get_args(argument.hint) or (argument.hint,)
        if not {int, float} & {*kinds}:
            continue
        is_number = _WHOLE.fullmatch if int in kinds else _as_float
        words = [word for kind in kinds for word in get_args(kind)]  # such as "auto"
        for token in argument.tokens:
            if token.value in words or is_number(token.value) is not None:
                continue
            setting = f"{argument.name} {token.value}"
            if token.source != "cli":
                setting = f"--config {token.source}: {setting.removeprefix('--')}"
            rest = "".join(f" or {word}" for word in words)
            whole = "whole " if int in kinds else ""
            raise UserError(f"{setting}: must be a {whole}number{rest}")


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
