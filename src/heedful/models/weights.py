"""Read a model's weights from its folder, in any supported file format."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful import files
from heedful.errors import UserError, join_names
from heedful.models import tensorflow

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
UNSUPPORTED = ("pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def read_weights(folder: Path, allow_pickle: bool) -> dict[str, Tensor]:
    """Read the weights of a folder in any supported file format.

    Raises:
        UserError: the folder has no weights, a weight is missing, or the file is a pickle and
            pickles are not allowed.
    """
    if (folder / WEIGHTS).is_file():
        return files.read_tensors(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _read_shards(folder)
    if (index := tensorflow.find_index(folder)) is not None:
        return tensorflow.read_tensors(index)
    if not (folder / PICKLE).is_file():
        for name in UNSUPPORTED:
            if (folder / name).is_file():
                raise UserError(
                    f"{folder}: its weights are in {name}, which is not read; "
                    f"convert it to {WEIGHTS} with the library that wrote it"
                )
        raise UserError(f"{folder}: no weights; expected {WEIGHTS}")
    if not allow_pickle:
        raise UserError(
            f"{folder}: its weights are a pickle ({PICKLE}), which can run code when "
            f"it is loaded; get {WEIGHTS}, or convert it as the page Troubleshooting shows; in "
            "Python from_pretrained(..., allow_pickle=True) reads it, if you trust its source"
        )
    return _read_pickle(folder / PICKLE)


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Read tensors without running code; safe since torch 2.6, the minimum (CVE-2025-32434)."""
    wrong = UserError(f"{path}: expected a pickle of names and nothing but tensors")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise many exception types
        raise wrong from error
    if not isinstance(tensors, dict) or not all(isinstance(x, Tensor) for x in tensors.values()):
        raise wrong
    return tensors


def weight_files(folder: Path) -> list[Path]:
    """Return the path of a folder's weight file, or of its shards.

    Raises:
        UserError: the index of the shards is damaged.
    """
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [folder / WEIGHTS]
    return [folder / shard for shard in sorted({*_shard_of_each(folder).values()})]


def _shard_of_each(folder: Path) -> dict[str, str]:
    weight_map = files.read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        raise UserError(f"{folder / INDEX}: no 'weight_map' in it")
    for shard in weight_map.values():
        if not isinstance(shard, str) or not _is_name(shard):
            raise UserError(f"{folder / INDEX}: {shard!r} is not the name of a file beside it")
    return weight_map


def _is_name(shard: str) -> bool:
    # Path("..").name is "..", and Path(".").name is "".
    return Path(shard).name == shard and shard not in ("", "..") and "\0" not in shard


def _read_shards(folder: Path) -> dict[str, Tensor]:
    weight_map = _shard_of_each(folder)
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        tensors |= files.read_tensors(folder / shard)
    missing = sorted(weight_map.keys() - tensors.keys())
    if missing:
        raise UserError(f"{folder}: missing from the shards: {join_names(missing)}")
    return tensors


def check_weights(
    weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path
) -> None:
    """Check that weights match those of a model exactly.

    Args:
        weights: weights of a file.
        expected: weights of the model, for names and shapes.
        folder: source of the weights, for error messages.

    Raises:
        UserError: a weight is missing or unexpected, or has a wrong shape or dtype.
    """
    if missing := [name for name in expected if name not in weights]:
        raise UserError(f"{folder}: weights are missing: {join_names(missing)}")
    if surplus := [name for name in weights if name not in expected]:
        raise UserError(f"{folder}: unexpected weights: {join_names(surplus)}")
    for name, parameter in expected.items():
        tensor = weights[name]
        if tensor.shape != parameter.shape:
            raise UserError(
                f"{folder}: {name} has shape {tuple(tensor.shape)}; "
                f"the model expects {tuple(parameter.shape)}"
            )
        if not tensor.is_floating_point():
            raise UserError(f"{folder}: {name} has type {tensor.dtype}; weights are floating point")


def allocate(model: nn.Module, ready: Mapping[nn.Parameter, Tensor] | None = None) -> None:
    """Move tensors from the device "meta" to the CPU, without initialising them.

    ``to_empty`` would also import torch's compiler, which takes longer than all other work for a
    prediction. Shared parameters stay shared. Tensors elsewhere stay as they are.

    Args:
        model: modified in place.
        ready: maps parameters that need no allocation to the tensors that replace them.
    """
    allocated: dict[Tensor, Tensor] = {
        parameter: nn.Parameter(tensor.detach(), parameter.requires_grad)
        for parameter, tensor in (ready or {}).items()
    }
    for part in model.modules():
        for name, old in [
            *part.named_parameters(recurse=False),
            *part.named_buffers(recurse=False),
        ]:
            if old not in allocated:
                if not old.is_meta:
                    continue
                new = torch.empty(old.shape, dtype=old.dtype)
                if isinstance(old, nn.Parameter):
                    new = nn.Parameter(new, old.requires_grad)
                allocated[old] = new
            setattr(part, name, allocated[old])


def renamed(name: str, table: Mapping[str, str]) -> str:
    """Return the name of a weight with some of its parts renamed.

    Args:
        name: name of a weight, such as ``encoder.layer.0.attention.self.query.weight``.
        table: maps parts, such as ``attention.self.query``, or whole names to new names. A part
            matches anywhere between dots; if two match at the same place, the longer one wins.
    """
    if not table:
        return name
    parts = "|".join(map(re.escape, sorted(table, key=len, reverse=True)))
    return re.sub(rf"(?<![^.])(?:{parts})(?![^.])", lambda part: table[part[0]], name)
