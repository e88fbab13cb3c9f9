"""A lock file that only one process at a time can hold in a folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heedful.errors import UserError
from heedful.files import with_file_name

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
"""Name of the lock file."""


@contextmanager
def locked(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock of a folder: a lock file, created at the start and deleted at the end.

    The system releases the lock when the process ends, even if it is killed. Where files cannot be
    locked, as on Windows, there is no lock.

    Args:
        folder: an existing folder. It may be gone at the end.
        otherwise: error message if another process holds the lock.

    Raises:
        UserError: another process holds the lock.
    """
    path = folder / LOCK
    with with_file_name(path):
        lock = path.open("a", encoding="utf-8")
    with lock:
        if sys.platform != "win32":
            _acquire(lock, otherwise)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _acquire(lock: IO[str], otherwise: str) -> None:
    try:
        # ``lockf``: child processes, such as data readers that end later, do not inherit the lock.
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise UserError(otherwise) from None
    except OSError:  # the file system has no locks
        return
