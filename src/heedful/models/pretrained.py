"""Fresh weights, and weights and folders of models, read and written.

A folder holds ``config.json`` and ``model.safetensors`` with the reference's names. One of Google's
original BERTs is read, too: ``bert_config.json`` and ``bert_model.ckpt``.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from heedful import files
from heedful.errors import UserError, listed
from heedful.layers.patches import Vectors
from heedful.layers.relative import SegmentPositions
from heedful.models.weights import WEIGHTS, allocate, renamed

if TYPE_CHECKING:
    from heedful.models.model import Model

CONFIG = "config.json"

BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Constants that old files hold among the weights."""

ENCODER = ("embeddings", "encoder", "layernorm")
"""What every checkpoint must have of its body, if the model does. A pooler or a head may start
fresh."""

OPTIONAL = ("crossattention", "distance_embedding", "mask_token")
"""Parts of an encoder that may start fresh, too."""

_DECODER_BIAS = ".decoder.bias"
"""What a file may call the bias of a head that scores pieces, instead or besides."""

BODY = (*ENCODER, *OPTIONAL, "pooler")
"""What is not a head."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport:
    """How the weights of a file and of a model met."""

    fresh: list[str]
    """Parts of the model of which the file has no weights: they have just been drawn."""
    unused: list[str]
    """Weights of the file that the model has not."""


def initialise(module: nn.Module, std: float) -> None:
    """Draw fresh weights as the reference does (Devlin et al. 2019, without the truncation).

    Args:
        module: its linear layers, embeddings, vectors and normalisations are set.
        std: standard deviation of the weights.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding | nn.Conv2d | Vectors):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            with torch.no_grad():
                part.weight[part.padding_idx].zero_()
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, SegmentPositions):
            for table in part.parameters(recurse=False):
                nn.init.normal_(table, std=std)
        if isinstance(bias := getattr(part, "bias", None), nn.Parameter):
            nn.init.zeros_(bias)


def save_pretrained(
    model: "Model", folder: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write ``config.json`` and ``model.safetensors``; other files of the folder are left alone.

    Raises:
        UserError: the folder holds one of the two already and ``overwrite`` is false, or is a file.
    """
    folder = Path(folder)
    check_free(folder, (CONFIG, WEIGHTS), overwrite=overwrite)
    if not folder.exists():
        with files.new_folder(folder) as new:
            _write(model, new)
        return
    staged = folder / ".saving"
    with files.new_folder(staged, overwrite=True) as new:
        _write(model, new)
    for file in staged.iterdir():
        file.replace(folder / file.name)
    staged.rmdir()


def check_free(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Refuse a folder that holds what is to be written, or is a file.

    Args:
        folder: where it goes; there need not be one.
        names: of the files to write.
        overwrite: whether they may be there.

    Raises:
        UserError: it holds one of them and ``overwrite`` is false, or is a file.
    """
    if folder.is_file():
        raise UserError(f"{folder} is a file; give a folder")
    present = [name for name in names if (folder / name).exists()]
    if present and not overwrite:
        raise UserError(
            f"{folder} has a {present[0]}; choose another folder or give overwrite=True"
        )


def _write(model: "Model", folder: Path) -> None:
    config = {"architectures": [type(model).__name__], **model.config.to_dict()}
    files.write_json(folder / CONFIG, config)
    files.write_tensors(folder / WEIGHTS, model.file_weights())


def set_weights(
    model: "Model",
    tensors: Mapping[str, Tensor],
    folder: Path,
    *,
    fresh_head: bool = False,
) -> LoadReport:
    """Set every parameter of an encoder, with a head or without, or draw it where that is right.

    ``model.loaded`` says thereafter which were set.

    Tensors of the parameters' type become the parameters themselves. Those of a file are mapped
    into memory, so what is not needed of them is not even read.

    Args:
        model: its parameters may be on the device "meta"; they are on the CPU thereafter.
        tensors: the weights, under the names of a file, for this model alone. They may lack the
            body's prefix or have it, and may have the old ``gamma`` and ``beta``.
        folder: what an error calls their source.
        fresh_head: see ``Model.from_pretrained``.

    Raises:
        UserError: an encoder weight or a part of a head is missing, the file has an encoder weight
            that the model has not, or a shape or a type is wrong.
    """
    prefix = model.body.prefix
    from_files = {theirs: ours for ours, theirs in model.in_files.items()}
    weights: dict[str, Tensor] = {}
    for file_name, tensor in model.body.from_file_layout(tensors).items():
        name = renamed(_plain_name(file_name, prefix), from_files)
        if name in weights:
            raise UserError(f"{folder}: {name} appears twice, under two names")
        if name not in BUFFERS and (not fresh_head or _part(name) in BODY):
            weights[name] = tensor
    parameters = _by_plain_name(model, prefix)
    for name in [name for name in weights if name.endswith(_DECODER_BIAS)]:
        bias = name.removesuffix(_DECODER_BIAS) + ".bias"
        if bias in parameters and bias not in weights:
            weights[bias] = weights.pop(name)
    missing = [name for name in parameters if name not in weights]
    surplus = [name for name in weights if name not in parameters]

    needed = {*ENCODER, *(_part(name) for name in weights if name in parameters)}
    wrong = [name for name in missing if _part(name) in needed]
    if wrong:
        raise UserError(f"{folder}: weights are missing: {listed(wrong)}")
    wrong = [name for name in surplus if _part(name) in ENCODER]
    if wrong:
        raise UserError(f"{folder}: weights that {CONFIG} does not mention: {listed(wrong)}")
    for name, parameter in parameters.items():
        if name in weights:
            _check_fit(name, weights[name], parameter, folder)

    ready = {
        parameter: weights[name]
        for name, parameter in parameters.items()
        if name in weights and weights[name].dtype is parameter.dtype
    }
    allocate(model, ready)
    copied = [name for name in weights if name in parameters and parameters[name] not in ready]
    parameters = _by_plain_name(model, prefix)
    for part_name, part in model.named_modules():
        owned = [f"{part_name}.{name}" for name, _ in part.named_parameters(recurse=False)]
        if any(_plain_name(name, prefix) in missing for name in owned):
            initialise(part, model.config.initializer_range)
    with torch.no_grad():
        for name in copied:
            parameters[name].copy_(weights[name])
    names = [name for name, _ in model.named_parameters()]
    model.loaded = frozenset(name for name in names if _plain_name(name, prefix) in weights)
    fresh = dict.fromkeys(_up_to(name, _part(name)) for name in missing)
    return LoadReport(fresh=[*fresh], unused=surplus)


def _by_plain_name(model: nn.Module, prefix: str) -> dict[str, nn.Parameter]:
    return {_plain_name(name, prefix): value for name, value in model.named_parameters()}


def _part(name: str) -> str:
    """Return which part of a model a weight is of; a file has all of a part or nothing of it."""
    for part in OPTIONAL:
        if f".{part}." in f"{name}.":
            return part
    # The heads of pre-training stand together under ``cls.``.
    return ".".join(name.split(".")[: 2 if name.startswith("cls.") else 1])


def _up_to(name: str, part: str) -> str:
    """Return where in the model the part of a weight is."""
    return name[: name.index(part) + len(part)]


def _check_fit(name: str, tensor: Tensor, parameter: Tensor, folder: Path) -> None:
    if tensor.shape != parameter.shape:
        way_out = "" if _part(name) in BODY else ", or fresh_head=True to start it fresh"
        raise UserError(
            f"{folder}: {name} has shape {tuple(tensor.shape)}; "
            f"the model expects {tuple(parameter.shape)}{way_out}"
        )
    if not tensor.is_floating_point():
        raise UserError(f"{folder}: {name} has type {tensor.dtype}; weights are floating point")


def _plain_name(name: str, prefix: str) -> str:
    """Return the reference's name of today, without the prefix of a model with a head."""
    name = name.removeprefix(f"{prefix}.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name
