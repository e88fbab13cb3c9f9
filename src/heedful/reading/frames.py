"""Data that Python users hold in memory, as files for the readers."""

import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from heedful.errors import UserError

if sys.platform != "win32":
    import fcntl

PathOrPaths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Data: TypeAlias = PathOrPaths | Sequence[Mapping[str, Any]] | Any
"""Paths, a list of dicts, or a table of pandas or pyarrow."""

_LOCK = ".lock"


@contextmanager
def as_files(data: Data) -> Iterator[list[Path]]:
    """Yield the files of some data; temporary ones are deleted afterwards.

    The name of a temporary file depends on its content alone, so that a run on the same data can be
    resumed.

    Raises:
        UserError: it is none of the kinds that `Data` lists.
    """
    if isinstance(data, str | os.PathLike):
        yield [Path(data)]
    elif isinstance(data, Sequence) and all(isinstance(path, str | os.PathLike) for path in data):
        yield [Path(str(path)) for path in data]
    else:
        content, ending = _content(data)
        name = f"heedful-{hashlib.sha256(content).hexdigest()[:16]}"
        with _held(Path(tempfile.gettempdir()) / name) as folder:
            path = folder / f"data{ending}"
            fresh = folder / f"{secrets.token_hex(8)}.partial"
            fresh.write_bytes(content)
            fresh.replace(path)  # another process may be reading the same
            yield [path]


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """Make a folder, which other processes may hold, too; the last one to leave deletes it.

    Raises:
        UserError: another user has made it.
    """
    if sys.platform == "win32":  # which deletes no file that is open
        folder.mkdir(exist_ok=True)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
        return
    with _locked(folder) as lock:
        try:
            yield folder
        finally:
            with suppress(BlockingIOError):  # somebody else goes on with it
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> IO[bytes]:
    """Return the open lock of a folder, which is made if it is not there."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise UserError(f"{folder} belongs to another user; set TMPDIR to another folder")
        with (
            suppress(FileNotFoundError),
            ExitStack() as closing,
        ):  # deleted by the last one to leave
            lock = closing.enter_context((folder / _LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock.fileno()), (folder / _LOCK).stat()):
                closing.pop_all()
                return lock


def _content(data: Any) -> tuple[bytes, str]:
    """Return data as the bytes of a file, and the ending for its format."""
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        try:
            lines = [json.dumps(dict(row), ensure_ascii=False) for row in data]
        except TypeError as error:
            raise UserError(f"data: a row has a value that JSON cannot hold: {error}") from None
        return "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"), ".jsonl"
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
    if kind == "pandas.DataFrame":
        data = pa.Table.from_pandas(data, preserve_index=False)
    if not isinstance(data, pa.Table):
        raise UserError(
            f"data is a {kind}; expected a path, paths, a list of dicts, or a table of pandas or "
            "pyarrow"
        )
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink)
    return bytes(sink.getvalue()), ".parquet"
