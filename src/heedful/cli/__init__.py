"""The ``heedful`` command line: it maps commands and options to functions of ``commands``.

Nothing here imports torch before a command needs it, so the help is fast. The settings dataclasses
define the options, and their docstrings the help text.
"""

import os
import re
import sys
from io import TextIOWrapper

from cyclopts import App, Argument, CycloptsError, MissingArgumentError, Parameter
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from heedful import __version__
from heedful.cli import explaining, measuring, reporting, serving, training, using
from heedful.cli.arguments import (
    check_numbers,
    check_paths,
    defaults,
    split_options,
    take_config,
    with_dashes,
    with_home,
)
from heedful.cli.options import drop_messages_without_reader, put_help_on_one_line, say
from heedful.errors import EXIT_STOPPED, EXIT_USER_ERROR, UserError, message_of
from heedful.training.interrupt import interrupted_by_signals

HELP = frozenset({"--help", "-h"})
_TAKE_TEXTS = frozenset({"predict", "explain", "score", "tokenize"})
_OPTION = re.compile(r"--?[a-z][\w-]*(=.*)?", re.DOTALL)

app = App(
    name="heedful",
    version=__version__,
    help="Turn your own text into working BERT and Transformer models, on your own machine.",
    help_epilogue="""
Start here: [bold]heedful demo[/bold], then
[bold]heedful train classify --train tickets.csv --out runs/tickets[/bold].
""",
    help_format="rich",
    default_parameter=Parameter(consume_multiple=True, negative_iterable=""),
    suppress_keyboard_interrupt=False,  # its message says how to resume
)
app.command(training.app)
for command in (
    using.evaluate,
    using.predict,
    reporting.report,
    reporting.compare,
    using.score,
    explaining.explain,
    serving.serve,
    using.export,
    using.tokenize,
    using.vocabulary,
    using.setup,
    using.doctor,
    using.demo,
    measuring.bench,
):
    app.command(command)


def main() -> None:
    """Run the command line and exit: 0 for success, 2 for a user error, 130 if stopped."""
    if isinstance(sys.stdout, TextIOWrapper):
        # JSON is UTF-8 on every terminal, and this is its escape for a lone surrogate.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    drop_messages_without_reader()
    options, texts = split_options(sys.argv[1:])
    debug = "--debug" in options
    with interrupted_by_signals():  # removes partly written files
        sys.exit(run([option for option in options if option != "--debug"] + texts, debug=debug))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: the arguments after ``heedful``; ``--config FILE.toml`` sets option defaults.
        debug: whether to show the traceback of an error, instead of one line.
    """
    if not HELP.isdisjoint(arguments):
        put_help_on_one_line()
    try:
        arguments = _configure(arguments)
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped")
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader closed the pipe; keep Python from reporting that again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CycloptsError, UserError, OSError) as error:
        if debug:
            raise
        say(f"heedful: {_message(error)}")
        return EXIT_USER_ERROR
    return 0


def _message(error: BaseException) -> str:
    """Return the one-line message of an error. The parser wraps errors raised by our settings."""
    while isinstance(error, CycloptsError) and isinstance(error.__cause__, UserError):
        error = error.__cause__
    if type(error) is MissingArgumentError and error.argument is not None:
        return _missing(error, error.argument)
    if type(error) is UnusedCliTokensError:
        command, left = " ".join(error.command_chain or ()), error.unused_tokens or []
        return f"{command}: {left[0]!r} belongs to no option; quote a value that has spaces"
    if type(error) is UnknownOptionError and _TAKE_TEXTS.intersection(error.command_chain or ()):
        text = error.token.keyword or error.token.value
        if not _OPTION.fullmatch(text):
            return f"{text!r} begins like an option; put -- before texts that begin with '-'"
    return message_of(error)


def _missing(error: MissingArgumentError, argument: Argument) -> str:
    """Return the message for a missing argument, or for an option without its value."""
    command, left = " ".join(error.command_chain or ()), error.unused_tokens or []
    if argument.name in left:
        return f"{command}: {argument.name} needs a value"
    if any(word.startswith("-") for word in left):  # it may be a misspelt option
        return str(error)
    positional = argument.field_info.is_positional
    name = argument.name.removeprefix("--").upper() if positional else argument.name
    if left:
        return f"{command}: {name} is missing; {left[0]!r} belongs to no option"
    return f"{command}: {name} is missing; `heedful {command} --help` says what it is"


def _configure(arguments: list[str]) -> list[str]:
    """Return the arguments for cyclopts, and let it read defaults from ``--config``."""
    options, texts = split_options(arguments)
    options = with_home(options)
    config, options = take_config(options)
    check_paths(options)
    files = () if config is None else (defaults(config),)
    app.config = (*files, check_numbers)
    return with_dashes(options) + texts
