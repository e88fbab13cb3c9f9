"""Tensors that processes divide, as one folder of safetensors to which each writes its shares.

torch's checkpoints (``torch.distributed.checkpoint``) know who has what. Its storage for Hugging
Face keeps that in the headers of the files; its own would keep it in a pickle.
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
"""Of what each process writes into a file, about."""


@contextmanager
def new_folder(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the temporary folder of ``files.new_folder`` to all processes at once.

    Yields:
        The folder, and whether this process is the one that writes what is not divided.
    """
    first = dist.get_rank() == 0
    with files.new_folder(path, overwrite=True) if first else nullcontext(path) as folder:
        shared = [folder]
        dist.broadcast_object_list(shared)
        yield shared[0], first
    dist.barrier()


def write(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into a new folder, each process what it has of them."""
    writer = HuggingFaceStorageWriter(
        str(folder), fqn_to_index_mapping=_files_of(tensors), save_distributed=True
    )
    save(dict(tensors), storage_writer=writer)


def _files_of(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Number the files of each process from 1: each is put together in memory."""
    most = _BYTES_OF_FILE * dist.get_world_size()
    ends = accumulate(tensor.nbytes for tensor in tensors.values())
    return {name: 1 + (end - 1) // most for name, end in zip(tensors, ends, strict=True)}


def read(folder: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of a folder, however many processes wrote it.

    Args:
        folder: what `write` wrote.
        like: weights, under names with which those of the tensors begin. A tensor of the shape of
            a weight that is divided is divided as that is; any other is whole.
    """
    reader = HuggingFaceStorageReader(str(folder))
    described = reader.read_metadata().state_dict_metadata
    tensors = {
        name: _empty(each, like.get(name, like.get(name.rpartition("/")[0])))
        for name, each in described.items()
        if isinstance(each, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # which says that one process reads: so it is
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def _empty(described: TensorStorageMetadata, weight: Tensor | None) -> Tensor:
    dtype = described.properties.dtype
    if weight is not None and weight.shape == described.size:
        return torch.empty_like(weight, dtype=dtype, requires_grad=False)
    return torch.empty(described.size, dtype=dtype)
