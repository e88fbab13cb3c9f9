"""Errors that a user can fix: one line says what is wrong, where, and what is allowed."""

import difflib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

MAX_NAMES, MAX_NAME_LENGTH = 12, 100
"""Maximum number of names that a message lists, and of characters of each name."""


EXIT_USER_ERROR, EXIT_STOPPED = 2, 130
"""Exit codes of the command line."""


class UserError(ValueError):
    """Wrong input. The command line prints its message as one line and exits with code 2."""


def message_of(error: BaseException) -> str:
    """Return an error's message on one line; an OSError's starts with the file, if known."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def did_you_mean(name: str, allowed: Iterable[str], cutoff: float = 0.5) -> str:
    """Return `` (did you mean 'x'?)`` for the allowed name nearest to ``name``, or ''.

    Args:
        name: the name that the user gave.
        allowed: all allowed names.
        cutoff: how similar the two must be, from 0 to 1.
    """
    near = difflib.get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]!r}?)" if near else ""


def unknown_name(what: str, name: str, allowed: Iterable[str]) -> UserError:
    """Build the error for an unknown name, with the closest allowed name as a suggestion.

    Args:
        what: the kind of name, such as ``"configuration key"``.
        name: the name that the user gave.
        allowed: all allowed names.
    """
    names = sorted(allowed)
    if len(name) > MAX_NAME_LENGTH:
        name = shorten(name, MAX_NAME_LENGTH)
    return UserError(
        f"unknown {what} {name!r}{did_you_mean(name, names)}; allowed: {join_names(names)}"
    )


def option_of(name: str) -> str:
    """Return the option of a settings field: ``--batch-size`` for ``batch_size``."""
    return "--" + name.replace("_", "-")


def check_known(what: str, name: object, allowed: Collection[str]) -> None:
    """Check that a name is one of the allowed names.

    Raises:
        UserError: see `unknown_name`.
    """
    if name not in allowed:
        raise unknown_name(what, str(name), allowed)


def other_option(where: object, name: str, before: object, now: object) -> UserError:
    """Build the error for an option whose value differs from the one at the start of a run.

    Args:
        where: the run that was started.
        name: name of the option's settings field.
        before: value at the start; None if the option was not given.
        now: current value; None if the option is not given.
    """
    option = option_of(name)
    started = f"without {option}" if before is None else f"with {option} {_as_given(before)}"
    today = "not given" if now is None else _as_given(now)
    return UserError(f"{where} was started {started}, now it is {today}")


def _as_given(value: object) -> str:
    """Return a value as on the command line."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def join_names(names: Collection[object]) -> str:
    """Join names for a message: the first ``MAX_NAMES``, then the number of remaining names."""
    shown = ", ".join(_shown(str(name)) for name in islice(names, MAX_NAMES))
    more = len(names) - MAX_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _shown(name: str) -> str:
    """Return a name for a list, quoted if it starts or ends with spaces, to make them visible."""
    return shorten(name if name == name.strip() else repr(name), MAX_NAME_LENGTH)


def count_of(number: int, noun: str) -> str:
    """Return ``1 text`` or ``2 texts``."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an", chosen by its first letter and not by its pronunciation."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def escape_controls(text: str) -> str:
    """Return a text with control characters escaped, since a terminal would interpret them."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except tab and newline."""


def shell_word(text: str) -> str:
    """Quote a text as one word on one line for bash and similar shells."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_in_quotes, text)) + "'"


def _in_quotes(character: str) -> str:
    """Escape characters that are special between ``$'`` and ``'``, or not printable."""
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def shorten(name: str, longest: int) -> str:
    """Shorten a name to one line by cutting its middle, since names differ at their ends."""
    name = escape_controls(" ".join(name.split()))
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Make errors name Python arguments (``batch_size``) instead of command line options."""
    try:
        yield
    except (UserError, KeyboardInterrupt) as error:
        if not error.args:
            raise
        raise type(error)(as_arguments(str(error))) from None


def as_arguments(message: str) -> str:
    """Return a message with Python arguments in place of options (``--batch-size``)."""
    return _OPTION.sub(_as_argument, message)


def _as_argument(match: re.Match[str]) -> str:
    option = match["option"]
    if option is None:
        return match[0]
    return _ARGUMENTS.get(option, option.replace("-", "_"))


_OPTION = re.compile(
    r"(?<![^\s(`])(?:heedful [a-z]+(?: --[a-z]+(?:-[a-z]+)* \S+)+|--(?P<option>[a-z]+(?:-[a-z]+)*))"
)
"""Matches an option in a message, or a whole command, which is left unchanged. Two dashes within a
path or a quoted label do not match, since they come from the user."""
_ARGUMENTS = {
    "resume": "resume=True",
    "overwrite": "overwrite=True",
    "no-header": "header=False",
    "context": "a tuple of both",
}
"""Python arguments for options that do not simply have the argument's name."""
