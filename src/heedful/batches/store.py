"""An on-disk store of examples, encoded once and read through the page cache.

The file is in Arrow's IPC format and memory-mapped. An example is a view into the file at a known
offset. A run's memory does not grow with its data, except for 8 bytes per example.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heedful.batches.examples import Example
from heedful.errors import UserError

if TYPE_CHECKING:  # imported lazily elsewhere: inference does not need pyarrow
    import pyarrow as pa

_BLOCK_ROWS = 1024
_NO_SPLIT = -1


@cache
def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("ids", pa.large_list(pa.int32()), nullable=False),
            pa.field("split", pa.int32(), nullable=False),
            pa.field("part", pa.int32(), nullable=False),
            pa.field("pixels", pa.large_list(pa.uint8()), nullable=False),
            pa.field("labels", pa.large_list(pa.float64()), nullable=False),
        ]
    )


def write_store(path: Path, examples: Iterable[Example]) -> None:
    """Write examples to a file atomically, one block at a time.

    Raises:
        UserError: the file cannot be written, such as when the disk is full.
    """
    stream = iter(examples)
    blocks = iter(lambda: list(islice(stream, _BLOCK_ROWS)), [])
    write_blocks(path, _schema(), map(_to_arrow, blocks))


def write_blocks(path: Path, schema: "pa.Schema", blocks: "Iterable[pa.RecordBatch]") -> None:
    """Write an Arrow file atomically, one block at a time.

    Raises:
        UserError: the file cannot be written, such as when the disk is full.
    """
    with block_writer(path, schema) as write:
        for block in blocks:
            write(block)


@contextmanager
def block_writer(path: Path, schema: "pa.Schema") -> "Iterator[Callable[[pa.RecordBatch], object]]":
    """Yield a function that appends a block to an Arrow file. The file appears on success only.

    Raises:
        UserError: the file cannot be written, such as when the disk is full.
    """
    import pyarrow as pa

    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
            yield writer.write_batch
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _to_arrow(block: Sequence[Example]) -> "pa.RecordBatch":
    import pyarrow as pa

    splits = [_NO_SPLIT if example.split is None else example.split for example in block]
    columns = [
        to_lists([example.ids for example in block], np.int32),
        pa.array(splits, pa.int32()),
        pa.array([example.part for example in block], pa.int32()),
        to_lists([_pixels(example) for example in block], np.uint8),
        to_lists([np.asarray(example.labels) for example in block], np.float64),
    ]
    return pa.record_batch(columns, schema=_schema())


def _pixels(example: Example) -> NDArray[np.uint8]:
    return np.empty(0, np.uint8) if example.pixels is None else example.pixels


def to_lists(rows: Sequence[NDArray[np.generic]], dtype: type[np.generic]) -> "pa.Array":
    """Return an Arrow column of lists from at least one row."""
    import pyarrow as pa

    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return pa.LargeListArray.from_arrays(offsets, np.concatenate(rows).astype(dtype, copy=False))


def open_blocks(path: Path, schema: "pa.Schema") -> "list[pa.RecordBatch]":
    """Memory-map an Arrow file and return its blocks. No data is read yet.

    Raises:
        UserError: the file is missing, damaged, or has another schema.
    """
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(pa.memory_map(os.fsencode(path)))  # paths may not be UTF-8
        blocks = [reader.get_batch(block) for block in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: not a file of examples, or damaged: {reason}") from None
    if not reader.schema.equals(schema):
        raise UserError(f"{path}: not a file of examples")
    return blocks


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Views into the file. List ``r`` of a column is ``values[offsets[r] : offsets[r + 1]]``."""

    ids: NDArray[np.int32]
    id_offsets: NDArray[np.int64]
    splits: NDArray[np.int32]
    parts: NDArray[np.int32]
    pixels: NDArray[np.uint8]
    pixel_offsets: NDArray[np.int64]
    labels: NDArray[np.float64]
    label_offsets: NDArray[np.int64]


class Store:
    """A file of examples, opened for reading.

    Attributes:
        lengths: (N,) token count of each example.
        parts: (N,) index of each example within its item; 0 begins an item.
        label_lengths: (N,) label count of each example.

    Raises:
        UserError: the file is missing, damaged, or not written by `write_store`.
    """

    def __init__(self, path: Path) -> None:
        batches = open_blocks(path, _schema())
        self._blocks = [_to_numpy(batch) for batch in batches]
        self.lengths = _sizes([block.id_offsets for block in self._blocks])
        self.parts = np.concatenate([np.empty(0, np.int32), *(b.parts for b in self._blocks)])
        self.label_lengths = _sizes([block.label_offsets for block in self._blocks])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Example:
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        number, row = divmod(index, _BLOCK_ROWS)
        block = self._blocks[number]
        split = int(block.splits[row])
        pixels = block.pixels[block.pixel_offsets[row] : block.pixel_offsets[row + 1]]
        labels = block.labels[block.label_offsets[row] : block.label_offsets[row + 1]]
        return Example(
            ids=block.ids[block.id_offsets[row] : block.id_offsets[row + 1]],
            split=None if split == _NO_SPLIT else split,
            part=int(block.parts[row]),
            pixels=pixels if len(pixels) else None,
            labels=tuple(labels.tolist()),
        )

    def __iter__(self) -> Iterator[Example]:
        return map(self.__getitem__, range(len(self)))

    @property
    def labels(self) -> NDArray[np.float64]:
        """The concatenated labels of all examples."""
        return np.concatenate([np.empty(0), *(block.labels for block in self._blocks)])


def _sizes(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    """Return the list lengths of all blocks."""
    return np.concatenate([np.empty(0, np.int32), *map(np.diff, offsets)]).astype(np.int32)


def _to_numpy(batch: "pa.RecordBatch") -> _Block:
    ids, splits, parts, pixels, labels = batch.columns
    return _Block(
        ids=ids.values.to_numpy(),
        id_offsets=ids.offsets.to_numpy(),
        splits=splits.to_numpy(),
        parts=parts.to_numpy(),
        pixels=pixels.values.to_numpy(),
        pixel_offsets=pixels.offsets.to_numpy(),
        labels=labels.values.to_numpy(),
        label_offsets=labels.offsets.to_numpy(),
    )
