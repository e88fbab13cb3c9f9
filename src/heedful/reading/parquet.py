"""Read rows of Parquet files, one record batch at a time, so a file may be larger than memory."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heedful.errors import UserError

# Small, because each row may have a text of many megabytes.
_BATCH_ROWS = 64
_BUFFER_BYTES = 2**20


def column_names(path: Path) -> list[str]:
    """Return the column names of a Parquet file, in order.

    Raises:
        UserError: the file is not Parquet or is damaged.
    """
    try:
        with _open(path) as file:
            return [str(name) for name in file.schema_arrow.names]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None


def read_rows(path: Path, names: Sequence[str]) -> Iterator[list[object]]:
    """Yield the cells of the named columns, row by row.

    Raises:
        UserError: the file is damaged. Rows before the damage are yielded first.
    """
    row = 0
    try:
        with _open(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(names), use_threads=False):
                columns = [_as_written(batch.column(name)) for name in names]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield _values(path, row, names, cells)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}, row {row}: not UTF-8 at byte {error.start + 1}") from None


def _as_written(column: pa.Array) -> pa.Array:
    """Return narrow floats as their shortest decimals: 3.3, not 3.299999952316284.

    Decimals with a fraction become floats; `_value` turns those without one into integers.
    """
    if pa.types.is_decimal(column.type) and column.type.scale > 0:
        return column.cast(pa.string()).cast(pa.float64())
    if column.type == pa.float32():
        return column.cast(pa.string()).cast(pa.float64())
    if column.type in (pa.list_(pa.float32()), pa.large_list(pa.float32())):
        return column.cast(pa.list_(pa.string())).cast(pa.list_(pa.float64()))
    if column.type in (pa.float16(), pa.list_(pa.float16()), pa.large_list(pa.float16())):
        # Arrow writes these in all digits.
        return pa.array(map(_shortest, column.to_pylist()))
    return column


def _shortest(value: Any) -> Any:
    """Return a 16-bit float, or a list of them, as 64-bit floats with the shortest decimals."""
    if isinstance(value, list):
        return [_shortest(item) for item in value]
    return None if value is None else float(str(np.float16(value)))


def _values(path: Path, row: int, names: Sequence[str], cells: Sequence[pa.Scalar]) -> list[object]:
    try:
        return [_value(cell) for cell in cells]
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError):  # a time with too fine a resolution, or out of range
        for name, cell in zip(names, cells, strict=True):
            try:
                cell.as_py()
            except (ValueError, OverflowError):
                raise UserError(
                    f"{path}, row {row}, column {name!r}: a value of type {cell.type} that "
                    "Python's times cannot hold; store it as text"
                ) from None
        raise


def _value(cell: pa.Scalar) -> object:
    value: object = cell.as_py()
    return int(value) if isinstance(value, Decimal) else value


def _open(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(
        path,
        buffer_size=_BUFFER_BYTES,  # read ahead this much, not whole columns
        pre_buffer=False,
        page_checksum_verification=True,  # if the file has checksums
    )


def _damaged(path: Path, error: Exception) -> UserError:
    reason = str(error).strip().partition("\n")[0]
    return UserError(f"{path}: not a Parquet file, or damaged: {reason}")
