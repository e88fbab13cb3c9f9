"""The ``heedful`` command: verbs and options to functions; what they do is in ``commands``.

Nothing here imports torch before a command needs it, so that help is there at once. The settings'
dataclasses give the options, and their docstrings the help; those that need no torch stand here.
"""

import os
import sys
from io import TextIOWrapper

from cyclopts import App, Argument, CycloptsError, MissingArgumentError, Parameter
from cyclopts.exceptions import UnusedCliTokensError

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
from heedful.cli.options import put_help_on_one_line, say
from heedful.errors import EXIT_STOPPED, EXIT_USER_ERROR, UserError, message_of
from heedful.training.interrupt import interrupted_by_signals

HELP = frozenset({"--help", "-h"})

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
    suppress_keyboard_interrupt=False,  # its message says how to go on
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
    """Run the command line and exit: 0 done, 2 the user's mistake, 130 stopped by the user."""
    if isinstance(sys.stdout, TextIOWrapper):
        # JSON is UTF-8 whatever the terminal is, and has this escape for half a surrogate pair.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    options, texts = split_options(sys.argv[1:])
    debug = "--debug" in options
    with interrupted_by_signals():  # so that nothing half-written stays
        sys.exit(run([option for option in options if option != "--debug"] + texts, debug=debug))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: the words after ``heedful``; ``--config FILE.toml`` gives defaults for options.
        debug: show the traceback of an error that is otherwise one line.
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
        # Whoever read our output has seen enough; keep Python from complaining when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CycloptsError, UserError, OSError) as error:
        if debug:
            raise
        say(f"heedful: {_message(error)}")
        return EXIT_USER_ERROR
    return 0


def _message(error: BaseException) -> str:
    """Return an error's line; the parser wraps those our settings raise."""
    while isinstance(error, CycloptsError) and isinstance(error.__cause__, UserError):
        error = error.__cause__
    if type(error) is MissingArgumentError and error.argument is not None:
        return _missing(error, error.argument)
    if type(error) is UnusedCliTokensError:
        command, left = " ".join(error.command_chain or ()), error.unused_tokens or []
        return f"{command}: {left[0]!r} belongs to no option; quote a value that has spaces"
    return message_of(error)


def _missing(error: MissingArgumentError, argument: Argument) -> str:
    """Return the line for an argument that is missing, or an option written without its value."""
    command, left = " ".join(error.command_chain or ()), error.unused_tokens or []
    if argument.name in left:
        return f"{command}: {argument.name} needs a value"
    if any(word.startswith("-") for word in left):  # it may be among them, misspelt
        return str(error)
    positional = argument.field_info.is_positional
    name = argument.name.removeprefix("--").upper() if positional else argument.name
    if left:
        return f"{command}: {name} is missing; {left[0]!r} belongs to no option"
    return f"{command}: {name} is missing; `heedful {command} --help` says what it is"


def _configure(arguments: list[str]) -> list[str]:
    """Return the arguments that are the library's, and have it ask ``--config`` for the others."""
    options, texts = split_options(arguments)
    options = with_home(options)
    config, options = take_config(options)
    check_paths(options)
    files = () if config is None else (defaults(config),)
    app.config = (*files, check_numbers)
    return with_dashes(options) + texts
