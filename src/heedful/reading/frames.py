"""Data that Python users hold in memory, as files for the readers."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from heedful.errors import UserError

PathOrPaths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Data: TypeAlias = PathOrPaths | Sequence[Mapping[str, Any]] | Any
"""Paths, a list of dicts, or a table of pandas or pyarrow."""


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
        folder = Path(tempfile.gettempdir()) / f"heedful-{hashlib.sha256(content).hexdigest()[:16]}"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"data{ending}"
        path.write_bytes(content)
        try:
            yield [path]
        finally:
            path.unlink(missing_ok=True)
            # Who trains and evaluates on the same data has one file for both.
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


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
