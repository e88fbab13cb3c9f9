"""A run folder that another process trains in."""

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


@contextmanager
def held_elsewhere(run: Path) -> Iterator[None]:
    """Have another process hold a folder, and kill it at the end."""
    command = [sys.executable, "-c", _HOLDING, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == b"held\n"
            yield
        finally:
            other.kill()
