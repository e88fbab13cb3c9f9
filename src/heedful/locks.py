"""The lock of a folder, which one process at a time holds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heedful.errors import UserError
from heedful.files import naming

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
"""File of a folder that a process holds while it works there."""


@contextmanager
def locked(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock of a folder, a file that is made in it, and deleted at the end.

    The system lets go of it when the process ends, however that happens. Where files cannot be
    locked, as on Windows, nothing is held.

    Args:
        folder: there is one; it may be gone at the end.
        otherwise: what to tell the user if another process holds it.

    Raises:
        UserError: another process holds it.
    """
    path = folder / LOCK
    with naming(path):
        lock = path.open("a", encoding="utf-8")
    with lock:
        if sys.platform != "win32":
            _take(lock, otherwise)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _take(lock: IO[str], otherwise: str) -> None:
    try:
        # Held by this process alone: what reads data for it may end a little later.
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise UserError(otherwise) from None
    except OSError:  # the file system has no locks
        return
