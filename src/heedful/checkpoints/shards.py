"""Sharded tensors as a folder of safetensors files to which each rank writes its shards.

Uses torch's distributed checkpoints (``torch.distributed.checkpoint``), which record the layout of
the shards. The Hugging Face storage keeps this layout in the headers of the files. The default
storage would keep it in a pickle.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from heedful import files

_BYTES_OF_FILE = 2**26
"""Approximate size of a file that one rank writes."""


@contextmanager
def new_folder(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the temporary folder of ``files.new_folder`` on all ranks.

    Yields:
        The folder, and whether this rank writes the files that are not sharded.
    """
    first = dist.get_rank() == 0
    with files.new_folder(path, overwrite=True) if first else nullcontext(path) as folder:
        shared = [folder]
        dist.broadcast_object_list(shared)
        yield shared[0], first
    dist.barrier()


def write(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into a new folder; each rank writes its own shards."""
    writer = HuggingFaceStorageWriter(
        str(folder), fqn_to_index_mapping=_files_of(tensors), save_distributed=True
    )
    save(dict(tensors), storage_writer=writer)


def _files_of(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the file number of each tensor, from 1. A file is limited as it is built in memory."""
    max_bytes = _BYTES_OF_FILE * dist.get_world_size()
    ends = accumulate(tensor.nbytes for tensor in tensors.values())
    return {name: 1 + (end - 1) // max_bytes for name, end in zip(tensors, ends, strict=True)}


def read(folder: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of a folder, whatever number of ranks wrote it.

    Args:
        folder: a folder that `write` wrote.
        like: weights, by a prefix of the tensor names. A tensor with the shape of a sharded weight
            is sharded in the same way; any other tensor is whole.
    """
    reader = HuggingFaceStorageReader(str(folder))
    metadata = reader.read_metadata().state_dict_metadata
    tensors = {
        name: _empty(entry, like.get(name, like.get(name.rpartition("/")[0])))
        for name, entry in metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about a read by a single process: intended
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def _empty(described: TensorStorageMetadata, weight: Tensor | None) -> Tensor:
    dtype = described.properties.dtype
    if weight is not None and weight.shape == described.size:
        return torch.empty_like(weight, dtype=dtype, requires_grad=False)
    return torch.empty(described.size, dtype=dtype)
