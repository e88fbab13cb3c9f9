"""Remote files through fsspec: ``s3://``, ``gs://``, ``hf://`` and others.

Users install the drivers themselves. Only files that a user names are opened. `Path` collapses the
two slashes of a URL into one; `url_of` restores them.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.errors import UserError

_URL = re.compile(r"((?:[a-z0-9]+::)*[a-z][a-z0-9+]+):/+", re.IGNORECASE)
_ROOTED_PROTOCOLS = ("file", "local")
"""Protocols whose paths begin at the root."""

_BLOCK_BYTES = 2**22
"""Bytes per read request, held in memory."""


def is_remote(path: Path) -> bool:
    """Return whether a path is an fsspec URL, such as ``s3://bucket/shard.txt``."""
    return _URL.match(str(path)) is not None


def url_of(path: Path) -> str:
    """Return a path as users write it: a URL if it is remote."""
    match = _URL.match(str(path))
    if match is None:
        return str(path)
    slashes = "///" if match[1].rpartition("::")[2].lower() in _ROOTED_PROTOCOLS else "//"
    return f"{match[1]}:{slashes}{str(path)[match.end() :]}"


def find_remote(pattern: Path) -> list[Path]:
    """Return the files that match a pattern, sorted by name.

    Raises:
        UserError: the driver is missing or cannot list the files.
    """
    system, name = _file_system(pattern)
    with _naming_file(pattern):
        matches = sorted(str(match) for match in system.glob(name))
    return [Path(system.unstrip_protocol(match)) for match in matches]


def check_remote(path: Path) -> None:
    """Refuse a file that does not exist.

    Raises:
        UserError: the file does not exist, or the driver is missing.
    """
    system, name = _file_system(path)
    with _naming_file(path):
        exists = system.isfile(name)
    if not exists:
        raise UserError(f"{url_of(path)}: no such file")


@contextmanager
def open_remote(path: Path) -> "Iterator[io.BufferedReader[Any]]":
    """Open a remote file without decompression.

    Raises:
        UserError: the driver is missing, or the file cannot be read.
    """
    system, name = _file_system(path)
    with _naming_file(path):
        raw = system.open(name, "rb", block_size=_BLOCK_BYTES)
    with io.BufferedReader(_DriverFile(raw, path)) as stream:
        yield stream


class _DriverFile(io.RawIOBase):
    """A driver's file. Its errors name the file; errors of the reading code pass unchanged."""

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw, self._path = raw, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _naming_file(self._path):
            data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _naming_file(self._path):
            return int(self._raw.seek(offset, whence))

    def close(self) -> None:
        self._raw.close()
        super().close()


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Convert a driver's exceptions to errors that name the file.

    Drivers raise exceptions without a common base class.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{url_of(path)}: no such file") from None
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{url_of(path)}: cannot be read: {reason}") from None


def _file_system(path: Path) -> tuple[Any, str]:
    """Return the file system of a file and its path there.

    Raises:
        UserError: the driver is not installed or does not exist.
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
    except Exception as error:  # drivers raise exceptions without a common base class
        raise UserError(f"{url}: {str(error).partition(chr(10))[0]}") from None
    return system, name
