"""Google's original BERT checkpoints, read without TensorFlow.

``NAME.index`` is a table in the format of LevelDB (its doc/table_format.md): blocks of sorted keys,
each with a checksum. A value is a protocol buffer (TensorFlow's tensor_bundle.proto) that says
where in ``NAME.data-00000-of-00001`` a tensor stands, which is plain numbers.
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

from heedful.errors import UserError, listed
from heedful.files import size_of
from heedful.protobuf import fields_of, read_varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_MAX_INDEX_BYTES = 2**20
_MAX_KEY_BYTES = 512
_MAX_DIMENSIONS = 32
_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 19: np.dtype("<f2")}
"""Numbers that TensorFlow gives to types; a BERT's weights are of the first."""

_WORDS = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "output_weights": "weight",
    "output_bias": "bias",
}
"""What Google calls a weight, to what the reference calls it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """Where a tensor stands."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


def find_index(folder: Path) -> Path | None:
    """Return the index of the checkpoint in a folder, or None if there is none.

    Raises:
        UserError: there are several.
    """
    indexes = sorted(folder.glob("*.ckpt*.index"))
    if len(indexes) > 1:
        names = listed([path.name for path in indexes])
        raise UserError(
            f"{folder}: several TensorFlow checkpoints: {names}; leave only one of them"
        )
    return indexes[0] if indexes else None


def read_tensors(index: Path) -> dict[str, Tensor]:
    """Read a checkpoint's weights under the reference's names, without the optimizer's.

    The index is checked against its checksums, the weights against their number.

    Raises:
        UserError: a file is missing or damaged, or it is another kind of checkpoint.
    """
    size_of(index)
    try:
        table = _read_table(index)
        (shards,) = _whole(dict(fields_of(table.pop(b"")))[1])
        entries = {key.decode(): _entry(value) for key, value in table.items()}
        _check_apart(entries.values())
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
    # Heads that were fine-tuned with Google's scripts.
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
    numbers = np.fromfile(path, dtype, count, offset=entry.offset)
    return torch.from_numpy(numbers.reshape(entry.shape))


def _read_table(path: Path) -> dict[bytes, bytes]:
    with path.open("rb") as stream:
        data = stream.read(_MAX_INDEX_BYTES)
    if struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("no table")
    footer = data[-_FOOTER:]
    _, at = _handle(footer, 0)  # of a block about the table, which is empty
    index, _ = _handle(footer, at)
    table: dict[bytes, bytes] = {}
    end = 0
    for _, value in _entries(_block(data, index)):
        handle, _ = _handle(value, 0)
        if handle[0] < end:  # a small file could make much work by naming a block many times
            raise ValueError("blocks that overlap")
        end = sum(handle)
        table.update(_entries(_block(data, handle)))
    return table


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Return where a block begins and how long it is, and where reading ended."""
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (offset, size), at


def _block(data: bytes, handle: tuple[int, int]) -> bytes:
    """Return the content of a block, after comparing its checksum."""
    offset, size = handle
    if offset + size > len(data):
        raise ValueError("a block that is not there")
    kind, checksum = struct.unpack_from("<BI", data, offset + size)
    crc = _crc32c(data[offset : offset + size + 1])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    if checksum != masked or kind != 0:  # TensorFlow compresses none
        raise ValueError("wrong checksum, or compressed")
    return data[offset : offset + size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give keys and values; a key is stored without what it shares with the one before."""
    (restarts,) = struct.unpack("<I", block[-4:])
    at, end, key = 0, len(block) - 4 * (restarts + 1), b""
    while at < end:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared + rest > _MAX_KEY_BYTES or rest + length > end - at:
            raise ValueError("a key that is too long, or one without its value")
        key = key[:shared] + block[at : at + rest]
        yield key, block[at + rest : at + rest + length]
        at += rest + length


def _entry(message: bytes) -> _Entry:
    """Read a ``BundleEntryProto``."""
    fields = dict(fields_of(message))
    shape = [
        dict(fields_of(value)).get(1, 0) for number, value in fields_of(fields[2]) if number == 2
    ]
    if len(shape) > _MAX_DIMENSIONS or not all(_whole(*shape)):
        raise ValueError("no shape of weights")
    dtype, shard, offset, size = _whole(fields[1], *(fields.get(number, 0) for number in (3, 4, 5)))
    return _Entry(dtype=dtype, shape=tuple(shape), shard=shard, offset=offset, size=size)


def _whole(*values: Any) -> tuple[int, ...]:
    """Return values of fields that must be whole numbers."""
    if not all(isinstance(value, int) for value in values):
        raise TypeError("bytes instead of a number")
    return values


def _check_apart(entries: Iterable[_Entry]) -> None:
    """Refuse tensors that overlap: together they would be larger than the file that they are in."""
    end = (0, 0)
    for shard, offset, size in sorted((x.shard, x.offset, x.size) for x in entries if x.size):
        if (shard, offset) < end:
            raise ValueError("tensors that overlap")
        end = (shard, offset + size)


def _crc32c(data: bytes) -> int:
    """Return the checksum of Castagnoli et al. 1993, as in RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
