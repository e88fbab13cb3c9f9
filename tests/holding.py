"""A folder that another process has locked, for training or for collecting answers."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDING = """
import sys
from pathlib import Path
from heedful.checkpoints.opening import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class HeldAlreadyError(Exception):
    """A process already holds the folder."""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[None]:
    """Let another process hold a folder, and kill it at the end.

    Raises:
        HeldAlreadyError: see there.
    """
    command = [sys.executable, "-c", _HOLDING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        try:
            if other.stdout.readline() != b"held\n":
                raise HeldAlreadyError
            yield
        finally:
            other.kill()
