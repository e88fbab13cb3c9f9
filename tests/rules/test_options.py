"""The options of the command line are a promise: a change to them changes the stored list.

After a change that is meant: ``python -m tests.rules.test_options > tests/rules/options.txt``.
"""

from collections.abc import Iterator
from pathlib import Path

from heedful.cli import app

STORED = Path(__file__).with_name("options.txt")


def options() -> Iterator[str]:
    """Yield each command with each of its options, by name."""
    commands = [(name, app[name]) for name in app if not name.startswith("-")]
    commands += [
        (f"train {name}", app["train"][name]) for name in app["train"] if not name.startswith("-")
    ]
    for name, command in sorted(commands, key=lambda pair: pair[0]):
        if command.default_command is None:
            continue
        for argument in command.assemble_argument_collection():
            if argument.show:
                yield f"{name} {' '.join(argument.names)}"


def test_options_are_those_that_are_stored() -> None:
    assert list(options()) == STORED.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print("\n".join(options()))
