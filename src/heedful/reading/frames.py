"""Convert in-memory data to temporary files for the readers."""

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from heedful.errors import UserError, with_article
from heedful.files import as_path
from heedful.locks import LOCK
from heedful.settings import ColumnSettings

if sys.platform != "win32":
    import fcntl

PathOrPaths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Data: TypeAlias = PathOrPaths | Sequence[Mapping[str, Any]] | Any
"""Paths, a list or iterator of dicts, or a pandas or pyarrow table."""
_EXPECTED = "a path, paths, a list of dicts, or a table of pandas or pyarrow"
IN_MEMORY = "data in memory"
"""Name of in-memory data in scores and messages."""

_OWN_KEYS = {"question", "context", "choices", "answer", "answers", "entities"}
"""Keys of the task-specific JSON formats; see `heedful.reading.squad` and similar modules."""


@contextmanager
def as_files(
    data: Data, argument: str = "data", columns: ColumnSettings | None = None
) -> Iterator[list[Path]]:
    """Yield the files of the data. Temporary files are deleted on exit.

    The name of a temporary file depends only on its content and the argument, so that a run on the
    same data can be resumed.

    Args:
        data: the user's data.
        argument: the argument's name in messages.
        columns: the columns to read. Other columns may have values that a file cannot store.

    Raises:
        UserError: the data is not of a type in `Data`, or a file cannot store a column to read.
            Errors raised inside the context also name the argument, not a temporary file.
    """
    if isinstance(data, io.IOBase):  # an iterator of lines
        raise UserError(f"{argument} is an open file; give its path, as text")
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, str | Sequence) and not len(data):
        raise UserError(f"{argument} is empty: expected {_EXPECTED}")
    if isinstance(data, str | os.PathLike):
        yield [as_path(argument, data)]
    elif isinstance(data, Sequence) and all(isinstance(path, str | os.PathLike) for path in data):
        yield [as_path(argument, path) for path in data]
    else:
        content, ending = _content(data, argument, _columns_read(columns or ColumnSettings()))
        name = f"heedful-{hashlib.sha256(content).hexdigest()[:16]}"
        with _shared_folder(Path(tempfile.gettempdir()) / name) as folder:
            path = folder / f"{argument}{ending}"
            partial = folder / f"{secrets.token_hex(8)}.partial"
            partial.write_bytes(content)
            partial.replace(path)  # another process may be reading the same file
            try:
                yield [path]
            except UserError as error:
                raise type(error)(naming_rows(str(error))) from None


def naming_rows(message: str) -> str:
    """Return a message with locations in temporary files replaced, such as by ``train, row 3``."""
    folder = re.escape(str(Path(tempfile.gettempdir()) / "heedful-")) + r"[0-9a-f]{16}"
    location = re.compile(rf"{folder}[/\\](\w+)\.\w+(, (?:line|row)(?= \d))?")
    return location.sub(lambda match: match[1] + (", row" if match[2] else ""), message)


def data_name(path: str | os.PathLike[str]) -> str:
    """Return a file's name in scores and messages; `IN_MEMORY` for a temporary file."""
    temporary = re.fullmatch(r"heedful-[0-9a-f]{16}", Path(path).parent.name)
    return IN_MEMORY if temporary else str(path)


def _columns_read(columns: ColumnSettings) -> set[str]:
    """Return the names or numbers of the columns to read."""
    named = [names for names in (columns.text, columns.text_pair, columns.label) if names]
    return {*named, *(part.strip() for names in named for part in names.split(","))}


@contextmanager
def _shared_folder(folder: Path) -> Iterator[Path]:
    """Create a folder shared with other processes. The last process to leave deletes it.

    Raises:
        UserError: the folder belongs to another user.
    """
    if sys.platform == "win32":  # Windows does not delete open files
        folder.mkdir(exist_ok=True)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
        return
    with _lock_folder(folder) as lock:
        try:
            yield folder
        finally:
            with suppress(BlockingIOError):  # another process still uses it
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _lock_folder(folder: Path) -> IO[bytes]:
    """Return the open lock file of a folder, which is created if missing."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise UserError(f"{folder} belongs to another user; set TMPDIR to another folder")
        # Try again if the last process to leave has just deleted the folder.
        with suppress(FileNotFoundError), ExitStack() as closing:
            lock = closing.enter_context((folder / LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat()):
                closing.pop_all()
                return lock


def _content(data: Any, argument: str, read: Collection[str]) -> tuple[bytes, str]:
    """Return the data as file content, and the extension of its format."""
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        read = {*read, *_OWN_KEYS}
        lines = [
            _line(row, f"{argument}, row {row_number}", read)
            for row_number, row in enumerate(data, start=1)
        ]
        # A lone surrogate cannot be UTF-8; as \ud800 it is a JSON escape.
        return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"), ".jsonl"
    import pyarrow as pa

    if isinstance(data, pa.Table) or _kind(data) == "a pandas.DataFrame":
        return _parquet(data, argument, read), ".parquet"
    if isinstance(data, list | tuple):
        raise _wrong_item(data, argument)
    converted = [name for name in ("to_arrow", "to_pandas") if hasattr(data, name)]
    advice = f"; give what its {converted[0]}() returns" if converted else ""
    raise UserError(f"{argument} is {_kind(data)}: expected {_EXPECTED}{advice}")


def _wrong_item(items: Sequence[Any], argument: str) -> UserError:
    """Return the error for a list that has neither only paths nor only dicts."""
    for number, item in enumerate(items, start=1):
        if not isinstance(item, str | os.PathLike | Mapping):
            return UserError(
                f"{argument}, item {number}: expected a dict, which is a row, or a path, found "
                f"{_kind(item)}"
            )
    return UserError(f"{argument} holds paths and dicts: give either")


def _kind(value: object) -> str:
    """Return the type of a value for messages, with its package."""
    if value is None:
        return "None"
    package = type(value).__module__.partition(".")[0]
    return with_article(f"{package}.{type(value).__name__}".removeprefix("builtins."))


def _line(row: Mapping[Any, Any], where: str, read: Collection[str]) -> str:
    """Return a row as JSON. A value that JSON cannot store is null, or an error if it is read."""
    with suppress(TypeError, ValueError):
        return _json(dict(row))
    kept: dict[str, Any] = {}
    for key, value in row.items():
        if not isinstance(key, str):  # not a column name
            continue
        kept[key] = value
        try:
            _json(value)
        except (TypeError, ValueError) as error:
            if key in read:
                raise UserError(
                    f"{where}, column {key!r}: a value that JSON cannot hold: {error}"
                ) from None
            kept[key] = None
    return _json(kept)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """Return a numpy number or array as a Python number or list."""
    if getattr(value, "dtype", None) in ("float16", "float32"):  # 3.3, not 3.299999952316284
        value = value.astype(str).astype(float)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__}")


def _parquet(table: Any, argument: str, read: Collection[str]) -> bytes:
    """Return a pandas or pyarrow table as the content of a Parquet file.

    A column that Parquet cannot store is null, or an error if it is read.
    """
    import pyarrow as pa

    unnamed = [name for name in getattr(table, "columns", ()) if isinstance(name, int)]
    if unnamed and any(name.isdecimal() for name in read):
        raise UserError(
            f"{argument}: column {unnamed[0]} has a number as its name, but numbers mean positions"
            " of columns, from 1: give the columns names"
        )
    try:
        whole = table if isinstance(table, pa.Table) else _from_pandas(table)
        content = _parquet_bytes(whole)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        whole = _by_columns(table, argument, read)
        content = _parquet_bytes(whole)
    for name in whole.column_names:
        if name in read and (count := whole.column_names.count(name)) > 1:
            raise UserError(f"{argument}: {count} columns are named {name!r}")
    return content


def _by_columns(table: Any, argument: str, read: Collection[str]) -> Any:
    """Return a table from columns converted one by one; see `_parquet`."""
    import pyarrow as pa

    is_arrow = isinstance(table, pa.Table)
    names = [str(name) for name in (table.column_names if is_arrow else table.columns)]
    columns = []
    for index, name in enumerate(names):
        try:
            column = table.select([index]) if is_arrow else _from_pandas(table.iloc[:, [index]])
            _parquet_bytes(column)
            columns.append(column.column(0))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            if name in read or str(index + 1) in read:
                reason = str(error.args[0] if error.args else error).partition("\n")[0]
                raise UserError(f"{argument}, column {name!r}: cannot be read: {reason}") from None
            columns.append(pa.nulls(len(table)))
    return pa.table(columns, names=names)


def _from_pandas(table: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(table, preserve_index=False)


def _parquet_bytes(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())
