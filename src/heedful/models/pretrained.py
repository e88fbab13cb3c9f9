"""Initialise weights, set weights from a file, and save models to folders.

A folder has ``config.json`` and ``model.safetensors`` with the reference's names. Folders of
Google's original BERTs can be read, too: ``bert_config.json`` and ``bert_model.ckpt``.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heedful import files
from heedful.errors import UserError, join_names
from heedful.layers.patches import Vectors
from heedful.layers.relative import SegmentPositions
from heedful.models.generation_defaults import GENERATION
from heedful.models.weights import WEIGHTS, allocate, renamed

if TYPE_CHECKING:
    from heedful.models.model import Model

CONFIG = "config.json"

_INITIALISED = "_initialised"
"""Attribute of a module whose weights have been initialised."""

BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Constants that old files store among the weights."""

ENCODER = ("embeddings", "encoder", "layernorm")
"""Parts of a body that every checkpoint must have if the model does. A pooler or a head may start
fresh."""

OPTIONAL = ("crossattention", "distance_embedding", "mask_token")
"""Parts of an encoder that may also start fresh."""

_DECODER_BIAS = ".decoder.bias"
"""Alternative or additional name of a language model head's bias in a file."""

BODY = (*ENCODER, *OPTIONAL, "pooler")
"""All parts that do not belong to a head."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport:
    """Mismatches between the weights of a file and of a model."""

    fresh: list[str]
    """Parts of the model without weights in the file; they have been initialised."""
    unused: list[str]
    """Weights of the file that the model lacks."""


def initialise(module: nn.Module, std: float) -> None:
    """Initialise weights as the reference does (Devlin et al. 2019, without the truncation).

    Args:
        module: the module with the linear layers, embeddings, vectors and layer normalisations.
        std: standard deviation of the weights.
    """
    for part in module.modules():
        initialise_alone(part, std)


def initialise_new(module: nn.Module, std: float) -> None:
    """Initialise the weights of those modules that nothing here has initialised before."""
    for part in module.modules():
        if not vars(part).get(_INITIALISED, False):
            initialise_alone(part, std)


def initialise_alone(part: nn.Module, std: float) -> None:
    """Initialise the weights that a module has itself. Other kinds keep those of their class."""
    vars(part)[_INITIALISED] = True
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
    """Write ``config.json`` and ``model.safetensors``; other files in the folder stay.

    A model with ``generation_defaults`` also writes ``generation_config.json``.

    A training loop may save its model in the same folder after each epoch: files that were saved
    from this object are replaced, unless something else has changed them.

    Raises:
        UserError: the folder is a file, or it has one of these files, from elsewhere, and
            ``overwrite`` is false.
    """
    folder = Path(folder)
    saved: dict[Path, list[Any]] = vars(model).setdefault("_saved", {})
    is_unchanged = folder.is_dir() and saved.get(folder.resolve()) == _stamps(folder)
    names = (CONFIG, WEIGHTS, *([GENERATION] if model.generation_defaults else []))
    check_no_overwrite(folder, names, overwrite=overwrite or is_unchanged)
    if not folder.exists():
        with files.new_folder(folder) as new:
            _write(model, new)
    else:
        staged = folder / ".saving"
        with files.new_folder(staged, overwrite=True) as new:
            _write(model, new)
        for file in staged.iterdir():
            file.replace(folder / file.name)
        staged.rmdir()
    saved[folder.resolve()] = _stamps(folder)


def _stamps(folder: Path) -> list[Any]:
    """Return what changes when another program writes to the files of a model."""
    paths = [folder / name for name in (CONFIG, WEIGHTS, GENERATION) if (folder / name).exists()]
    stats = [path.stat() for path in paths]
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in stats]


def check_no_overwrite(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Check that writing to a folder would not overwrite files.

    Args:
        folder: target folder; it need not exist.
        names: names of the files to write.
        overwrite: whether the files may exist.

    Raises:
        UserError: the folder is a file, or it has one of the files and ``overwrite`` is false.
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
    if defaults := dict(model.generation_defaults):
        if "decoder_start_token_id" in defaults:  # it takes precedence over that of config.json
            defaults["decoder_start_token_id"] = config["decoder_start_token_id"]
        files.write_json(folder / GENERATION, defaults)


def set_weights(
    model: "Model",
    tensors: Mapping[str, Tensor],
    folder: Path,
    *,
    fresh_head: bool = False,
    ignore_mismatched_sizes: bool = False,
) -> LoadReport:
    """Set every parameter of an encoder, with or without a head, or initialise it where allowed.

    Afterwards ``model.loaded`` names the parameters set from the file.

    Tensors with the parameters' dtype become the parameters without a copy. Tensors of a file are
    memory-mapped, so unneeded ones are never read.

    Args:
        model: its parameters may be on the device "meta"; afterwards they are on the CPU.
        tensors: weights under their names in the file, owned by this model. Names may have or lack
            the body's prefix, and may use the old ``gamma`` and ``beta``.
        folder: source of the weights, for error messages.
        fresh_head: see ``Model.from_pretrained``.
        ignore_mismatched_sizes: see ``Model.from_pretrained``.

    Raises:
        UserError: an encoder weight or a weight of a partly present head is missing, the file has
            an encoder weight that the model lacks, or a shape or dtype is wrong.
    """
    prefix = model.body.prefix
    weights = named_by_model(model, tensors, folder)
    if fresh_head:
        weights = {name: weights[name] for name in weights if _part(name) in BODY}
    parameters = by_plain_name(model, prefix)
    mismatched = _mismatched(weights, parameters) if ignore_mismatched_sizes else set()
    weights = {name: tensor for name, tensor in weights.items() if name not in mismatched}
    missing = [name for name in parameters if name not in weights]
    buffers = _saved_buffers(model, prefix)
    surplus = [name for name in weights if name not in parameters and name not in buffers]
    present = [name for name in parameters if name in weights]
    wrong = _missing_parts(model, present, [name for name in missing if name not in mismatched])
    if wrong:
        raise UserError(f"{folder}: weights are missing: {join_names(wrong)}")
    wrong = _unknown_parts(surplus, tensors, prefix)
    if wrong:
        raise UserError(f"{folder}: weights that {CONFIG} does not mention: {join_names(wrong)}")
    for name, tensor in {**parameters, **buffers}.items():
        if name in weights:
            _check_fit(name, weights[name], tensor, folder)

    ready = {
        parameter: weights[name]
        for name, parameter in parameters.items()
        if name in weights and weights[name].dtype is parameter.dtype
    }
    allocate(model, ready)
    copied = [name for name in weights if name in parameters and parameters[name] not in ready]
    for part_name, part in model.named_modules():
        owned = [f"{part_name}.{name}" for name, _ in part.named_parameters(recurse=False)]
        if any(plain_name(name, prefix) in missing for name in owned):
            initialise_alone(part, model.config.initializer_range)
    tensors_of_model = {**by_plain_name(model, prefix), **_saved_buffers(model, prefix)}
    with torch.no_grad():
        for name in (*copied, *(name for name in buffers if name in weights)):
            tensors_of_model[name].copy_(weights[name])
    names = [name for name, _ in model.named_parameters()]
    model.loaded = frozenset(name for name in names if plain_name(name, prefix) in weights)
    fresh = dict.fromkeys(name if name in mismatched else _up_to_part(name) for name in missing)
    return LoadReport(fresh=[*fresh], unused=surplus)


def named_by_model(
    model: "Model", tensors: Mapping[str, Tensor], folder: Path
) -> dict[str, Tensor]:
    """Return the weights of a file under the plain names of the model.

    Raises:
        UserError: a weight has two names in the file.
    """
    from_files = {theirs: ours for ours, theirs in model.file_names.items()}
    weights: dict[str, Tensor] = {}
    for file_name, tensor in model.body.from_file_layout(tensors).items():
        name = renamed(plain_name(file_name, model.body.prefix), from_files)
        if name in weights:
            raise UserError(f"{folder}: {name} appears twice, under two names")
        if name not in BUFFERS:
            weights[name] = tensor
    parameters = by_plain_name(model, model.body.prefix)
    for name in [name for name in weights if name.endswith(_DECODER_BIAS)]:
        bias = name.removesuffix(_DECODER_BIAS) + ".bias"
        if bias in parameters and bias not in weights:
            weights[bias] = weights.pop(name)
    return weights


def is_unprefixed(model: "Model", name: str) -> bool:
    """Return whether a tensor of the body lacks the prefix that a model with a head gives it."""
    prefix = model.body.prefix
    from_files = {theirs: ours for ours, theirs in model.file_names.items()}
    of_body = _part(renamed(plain_name(name, prefix), from_files)) in BODY
    return model.body is not model and of_body and not name.startswith(f"{prefix}.")


def _missing_parts(model: "Model", present: Sequence[str], missing: Sequence[str]) -> list[str]:
    """Return the missing weights that may not start fresh: of the body, or of half a part.

    A user's own model may have parts beside its body whose names are those of parts of a body.
    """
    prefix = model.body.prefix
    of_body = {
        plain_name(name, prefix)
        for name, _ in model.named_parameters()
        if model.body is model or name.startswith(f"{prefix}.")
    }

    def part(name: str) -> tuple[bool, str]:
        return name in of_body, _part(name)

    needed = {(True, name) for name in ENCODER} | {part(name) for name in present}
    return [name for name in missing if part(name) in needed]


def _unknown_parts(surplus: Sequence[str], in_file: Collection[str], prefix: str) -> list[str]:
    """Return the weights of a body that the model lacks.

    If the names of the body's weights have the prefix, the others are not the body's.
    """
    has_prefix = any(name.startswith(f"{prefix}.") for name in in_file)
    return [
        name for name in surplus if _part(name) in ENCODER and not (has_prefix and name in in_file)
    ]


def _saved_buffers(model: nn.Module, prefix: str) -> dict[str, Tensor]:
    """Return the buffers that a state dict holds, by plain name."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    state = model.state_dict(keep_vars=True)
    return {plain_name(name, prefix): state[name] for name in state if name not in parameters}


def _mismatched(weights: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> set[str]:
    """Return the weights of all modules that have a weight of another size."""
    modules = {
        name.rpartition(".")[0]
        for name, parameter in parameters.items()
        if name in weights and weights[name].shape != parameter.shape
    }
    return {name for name in weights if name.rpartition(".")[0] in modules}


def by_plain_name(model: nn.Module, prefix: str) -> dict[str, nn.Parameter]:
    """Return the parameters of a model by plain name."""
    return {plain_name(name, prefix): value for name, value in model.named_parameters()}


def _part(name: str) -> str:
    """Return the part of a model to which a weight belongs; files have whole parts or none."""
    for part in OPTIONAL:
        if f".{part}." in f"{name}.":
            return part
    # The pre-training heads are all under ``cls.``.
    return ".".join(name.split(".")[: 2 if name.startswith("cls.") else 1])


def _up_to_part(name: str) -> str:
    """Return a weight's name up to and including its part."""
    part = _part(name)
    return name[: name.index(part) + len(part)]


def _check_fit(name: str, tensor: Tensor, expected: Tensor, folder: Path) -> None:
    if tensor.shape != expected.shape:
        way_out = "" if _part(name) in BODY else ", or fresh_head=True to start it fresh"
        raise UserError(
            f"{folder}: {name} has shape {tuple(tensor.shape)}; "
            f"the model expects {tuple(expected.shape)}{way_out}"
        )
    if expected.is_floating_point() and not tensor.is_floating_point():
        raise UserError(f"{folder}: {name} has type {tensor.dtype}; weights are floating point")


def plain_name(name: str, prefix: str) -> str:
    """Return the reference's current name, without the prefix of a model with a head."""
    name = name.removeprefix(f"{prefix}.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name
