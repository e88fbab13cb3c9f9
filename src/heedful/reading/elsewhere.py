"""Files that are not of this machine, by fsspec: ``s3://``, ``gs://``, ``hf://`` and others.

The drivers are the user's to install. Nothing is opened unless a user names it. `Path` folds the
two slashes of such a name into one; `url_of` unfolds them.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.errors import UserError

_ELSEWHERE = re.compile(r"((?:[a-z0-9]+::)*[a-z][a-z0-9+]+):/+", re.IGNORECASE)
_ROOTED = ("file", "local")
"""Protocols whose names begin at the root."""

_BLOCK_BYTES = 2**22
"""What is asked for at once, and held in memory."""


def is_elsewhere(path: Path) -> bool:
    """Tell whether a path is a name for fsspec, such as ``s3://bucket/shard.txt``."""
    return _ELSEWHERE.match(str(path)) is not None


def url_of(path: Path) -> str:
    """Return how users write a path: a URL if it is elsewhere."""
    match = _ELSEWHERE.match(str(path))
    if match is None:
        return str(path)
    slashes = "///" if match[1].rpartition("::")[2].lower() in _ROOTED else "//"
    return f"{match[1]}:{slashes}{str(path)[match.end() :]}"


def find_elsewhere(pattern: Path) -> list[Path]:
    """Return the files that fit a pattern, in the order of their names.

    Raises:
        UserError: the driver is missing, or cannot list them.
    """
    system, name = _system(pattern)
    with _told(pattern):
        matches = sorted(str(match) for match in system.glob(name))
    return [Path(system.unstrip_protocol(match)) for match in matches]


def check_elsewhere(path: Path) -> None:
    """Refuse a file that there is not.

    Raises:
        UserError: naming it, or the driver that is missing.
    """
    system, name = _system(path)
    with _told(path):
        there = system.isfile(name)
    if not there:
        raise UserError(f"{url_of(path)}: no such file")


@contextmanager
def open_elsewhere(path: Path) -> "Iterator[io.BufferedReader[Any]]":
    """Open a file as it is stored.

    Raises:
        UserError: the driver is missing, or it cannot be read.
    """
    system, name = _system(path)
    with _told(path):
        raw = system.open(name, "rb", block_size=_BLOCK_BYTES)
    with io.BufferedReader(_Told(raw, path)) as stream:
        yield stream


class _Told(io.RawIOBase):
    """A driver's file, whose errors name it; those of whoever reads it pass as they are."""

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw, self._path = raw, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _told(self._path):
            data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _told(self._path):
            return int(self._raw.seek(offset, whence))

    def close(self) -> None:
        self._raw.close()
        super().close()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what a driver raises into an error that names the file.

    Drivers have errors of their own, which share no class.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{url_of(path)}: no such file") from None
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{url_of(path)}: cannot be read: {reason}") from None


def _system(path: Path) -> tuple[Any, str]:
    """Return what reads a file, and the name that it has there.

    Raises:
        UserError: the driver is not installed, or there is none.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations

    url = url_of(path)
    try:
        system, name = url_to_fs(url)
    except ImportError:
        protocol = url.partition(":")[0]
        package = known_implementations[protocol]["class"].partition(".")[0]
        raise UserError(f"{url}: {protocol}:// needs a driver: pip install {package}") from None
    except Exception as error:  # drivers have errors of their own, which share no class
        raise UserError(f"{url}: {str(error).partition(chr(10))[0]}") from None
    return system, name
