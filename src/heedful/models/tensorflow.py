"""Read Google's original BERT checkpoints without TensorFlow.

``NAME.index`` is a table in LevelDB's format (its doc/table_format.md): blocks of sorted keys, each
with a checksum. Each value is a protocol buffer (TensorFlow's tensor_bundle.proto) that locates a
tensor in ``NAME.data-00000-of-00001``, which stores tensors as plain numbers.
"""

import math
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.errors import UserError, join_names
from heedful.files import size_of
from heedful.protobuf import fields_of, read_varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_MAX_INDEX_BYTES = 2**20
_MAX_KEY_BYTES = 512
_MAX_DIMENSIONS = 32
_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 19: np.dtype("<f2")}
"""Dtypes by TensorFlow's enum values; the weights of BERT have the first."""

_WORDS = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "output_weights": "weight",
    "output_bias": "bias",
}
"""Google's names of weights, mapped to the reference's names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """Location of a tensor in a checkpoint."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


def find_index(folder: Path) -> Path | None:
    """Return the path of the checkpoint index in a folder, or None if there is none.

    Raises:
        UserError: the folder has several checkpoints.
    """
    indexes = sorted(folder.glob("*.ckpt*.index"))
    if len(indexes) > 1:
        names = join_names([path.name for path in indexes])
        raise UserError(
            f"{folder}: several TensorFlow checkpoints: {names}; leave only one of them"
        )
    return indexes[0] if indexes else None


def read_tensors(index: Path) -> dict[str, Tensor]:
    """Read a checkpoint's weights under the reference's names, without optimizer state.

    Checks the index against its checksums and the weights against their expected sizes.

    Raises:
        UserError: a file is missing or damaged, or the checkpoint is of another kind.
    """
    size_of(index)
    try:
        table = _read_table(index)
        (shards,) = _whole(dict(fields_of(table.pop(b"")))[1])
        entries = {key.decode(): _entry(value) for key, value in table.items()}
        _check_disjoint(entries.values())
    except (KeyError, TypeError, ValueError, struct.error):
        raise UserError(f"{index}: damaged, or not the index of a TensorFlow checkpoint") from None
    if "_CHECKPOINTABLE_OBJECT_GRAPH" in entries:
        raise UserError(
            f"{index}: a checkpoint of TensorFlow 2, whose names are not those of the original "
            "BERT; convert it to model.safetensors with the library that wrote it"
        )
    tensors = {}
    for name, entry in entries.items():
        if not name.endswith(("/adam_m", "/adam_v")) and name != "global_step":
            shard = f".data-{entry.shard:05}-of-{shards:05}"
            tensor = _read_tensor(index.with_suffix(shard), name, entry)
            tensors[_reference_name(name)] = tensor.T if name.endswith("/kernel") else tensor
    return tensors


def _reference_name(name: str) -> str:
    *scopes, last = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name).split("/")
    # Heads fine-tuned with Google's scripts.
    scopes = {(): ["classifier"], ("cls", "squad"): ["qa_outputs"]}.get(tuple(scopes), scopes)
    if last.endswith("_embeddings"):
        return ".".join([*scopes, last, "weight"])
    return ".".join([*scopes, _WORDS.get(last, last)])


def _read_tensor(path: Path, name: str, entry: _Entry) -> Tensor:
    dtype = _TYPES.get(entry.dtype)
    if dtype is None:
        raise UserError(f"{path}: {name} is of TensorFlow's type {entry.dtype}; expected floats")
    if not path.is_file():
        raise UserError(f"{path}: no such file; the checkpoint's index lists it")
    count = math.prod(entry.shape)
    if entry.size != count * dtype.itemsize or entry.offset + entry.size > path.stat().st_size:
        raise UserError(f"{path}: damaged or truncated: {name} does not fit into it")
    values = np.fromfile(path, dtype, count, offset=entry.offset)
    return torch.from_numpy(values.reshape(entry.shape))


def _read_table(path: Path) -> dict[bytes, bytes]:
    with path.open("rb") as stream:
        data = stream.read(_MAX_INDEX_BYTES)
    if struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("no table")
    footer = data[-_FOOTER:]
    _, position = _handle(footer, 0)  # handle of the metaindex block, which is empty
    index, _ = _handle(footer, position)
    table: dict[bytes, bytes] = {}
    end = 0
    for _, value in _entries(_block(data, index)):
        handle, _ = _handle(value, 0)
        if handle[0] < end:  # else a small file could cause much work by repeating a block
            raise ValueError("blocks that overlap")
        end = sum(handle)
        table.update(_entries(_block(data, handle)))
    return table


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Return a block's offset and size, and the position after its handle."""
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (offset, size), position


def _block(data: bytes, handle: tuple[int, int]) -> bytes:
    """Return the content of a block after checking its checksum."""
    offset, size = handle
    if offset + size > len(data):
        raise ValueError("a block outside the file")
    kind, checksum = struct.unpack_from("<BI", data, offset + size)
    crc = _crc32c(data[offset : offset + size + 1])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    if checksum != masked or kind != 0:  # TensorFlow does not compress blocks
        raise ValueError("wrong checksum, or compressed")
    return data[offset : offset + size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values; a key is stored without the prefix shared with the previous key."""
    (restarts,) = struct.unpack("<I", block[-4:])
    position, end, key = 0, len(block) - 4 * (restarts + 1), b""
    while position < end:
        shared, position = read_varint(block, position)
        unshared, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared + unshared > _MAX_KEY_BYTES or unshared + length > end - position:
            raise ValueError("a key that is too long, or one without its value")
        key = key[:shared] + block[position : position + unshared]
        yield key, block[position + unshared : position + unshared + length]
        position += unshared + length


def _entry(message: bytes) -> _Entry:
    """Read a ``BundleEntryProto``."""
    fields = dict(fields_of(message))
    shape = [
        dict(fields_of(value)).get(1, 0) for number, value in fields_of(fields[2]) if number == 2
    ]
    if len(shape) > _MAX_DIMENSIONS or not all(_whole(*shape)):
        raise ValueError("an invalid shape")
    dtype, shard, offset, size = _whole(fields[1], *(fields.get(number, 0) for number in (3, 4, 5)))
    return _Entry(dtype=dtype, shape=tuple(shape), shard=shard, offset=offset, size=size)


def _whole(*values: Any) -> tuple[int, ...]:
    """Return field values after checking that they are integers."""
    if not all(isinstance(value, int) for value in values):
        raise TypeError("bytes instead of a number")
    return values


def _check_disjoint(entries: Iterable[_Entry]) -> None:
    """Reject overlapping tensors, whose total size could exceed that of their file."""
    end = (0, 0)
    for shard, offset, size in sorted((x.shard, x.offset, x.size) for x in entries if x.size):
        if (shard, offset) < end:
            raise ValueError("tensors that overlap")
        end = (shard, offset + size)


def _crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum (Castagnoli et al. 1993; RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
