"""Fresh weights, and the reference's model folders read and written.

A folder holds ``config.json`` and ``model.safetensors`` with the reference's names. One of Google's
original BERTs is read, too: ``bert_config.json`` and ``bert_model.ckpt``.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from heedful import files, sources
from heedful.errors import UserError, listed
from heedful.models.bert.config import BertConfig
from heedful.models.weights import WEIGHTS, read_weights

logger = logging.getLogger(__name__)

CONFIG = "config.json"

BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Constants that old files hold among the weights."""

ENCODER = ("embeddings", "encoder")
"""What every checkpoint of a BERT must have; a pooler or a head may start fresh."""

OPTIONAL = ("crossattention", "distance_embedding")
"""Parts of an encoder that may start fresh, too."""

BODY = (*ENCODER, *OPTIONAL, "pooler")
"""What is not a head."""

Model = TypeVar("Model", bound=nn.Module)


@runtime_checkable
class _Config(Protocol):
    """What a ``config.json`` is made from."""

    def to_dict(self) -> dict[str, Any]: ...


@runtime_checkable
class _Renamed(Protocol):
    """A model whose weights have other names in a file."""

    def file_weights(self) -> dict[str, Tensor]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport:
    """How the weights of a file and of a model met."""

    fresh: list[str]
    """Weights of the model that the file has not: they have just been drawn."""
    unused: list[str]
    """Weights of the file that the model has not."""


def initialise(module: nn.Module, std: float) -> None:
    """Draw fresh weights as the reference does (Devlin et al. 2019, without the truncation).

    Args:
        module: its linear layers, embeddings and normalisations are set.
        std: standard deviation of the weights.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            with torch.no_grad():
                part.weight[part.padding_idx].zero_()
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(bias := getattr(part, "bias", None), nn.Parameter):
            nn.init.zeros_(bias)


def num_parameters(model: nn.Module) -> int:
    """Return how many numbers a model's parameters hold."""
    return sum(parameter.numel() for parameter in model.parameters())


def config_of(model: nn.Module) -> BertConfig:
    """Return the configuration of a model as it is now."""
    assert isinstance(model.config, BertConfig)
    return model.config


def from_pretrained(
    cls: type[Model],
    name: str | os.PathLike[str],
    *,
    num_labels: int | None = None,
    id2label: Mapping[int, str] | None = None,
    problem_type: str | None = None,
    hidden_dropout_prob: float | None = None,
    attention_probs_dropout_prob: float | None = None,
    classifier_dropout: float | None = None,
    is_decoder: bool | None = None,
    add_cross_attention: bool | None = None,
    position_embedding_type: str | None = None,
    chunk_size_feed_forward: int | None = None,
    fresh_head: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> Model:
    """Read a model in evaluation mode, with float32 weights; what is None stays as the folder says.

    A head that the folder has no weights for starts fresh, and a warning of the logger
    ``heedful.models.pretrained`` names its weights. Weights that this model has no place for,
    such as another head's, are named at level INFO.

    Args:
        cls: the kind of model.
        name: see ``heedful.sources.resolve``.
        num_labels: number of outputs of a classifier.
        id2label: name of each output.
        problem_type: one of ``config.PROBLEM_TYPES``.
        hidden_dropout_prob: dropout of the embeddings and of what each half of a block adds.
        attention_probs_dropout_prob: dropout of the attention weights.
        classifier_dropout: dropout before a classifier.
        is_decoder: whether a token may attend to none after it.
        add_cross_attention: whether the blocks can attend to an encoder. Weights for that may
            start fresh, as those of a head.
        position_embedding_type: one of ``layers.positions.POSITIONS``; the same.
        chunk_size_feed_forward: how many tokens go through the feed-forward parts at once.
        fresh_head: whether to start the head fresh although the folder has weights for it, as
            other labels need.
        revision: commit, tag or branch of a hub name.
        allow_pickle: whether to read ``pytorch_model.bin`` where there is no safetensors file.

    Raises:
        UserError: there is no such model, its configuration is not supported, or its weights do
            not fit it.
    """
    folder = sources.resolve(name, revision)
    config = BertConfig.read(folder / CONFIG)
    changes: dict[str, Any] = {
        "problem_type": problem_type,
        "hidden_dropout_prob": hidden_dropout_prob,
        "attention_probs_dropout_prob": attention_probs_dropout_prob,
        "classifier_dropout": classifier_dropout,
        "is_decoder": is_decoder,
        "add_cross_attention": add_cross_attention,
        "position_embedding_type": position_embedding_type,
        "chunk_size_feed_forward": chunk_size_feed_forward,
    }
    changes = {key: value for key, value in changes.items() if value is not None}
    if num_labels is not None and num_labels < 1:
        raise UserError(f"num_labels is {num_labels}; it must be at least 1")
    if id2label is not None or num_labels not in (None, config.num_labels):
        changes |= {"num_labels": num_labels or 0, "id2label": dict(id2label or {})}
    with torch.device("meta"):  # no time or memory for weights that are read next
        model = cls(replace(config, **changes))
    model = model.to_empty(device="cpu")
    report = load_weights(model, folder, fresh_head=fresh_head, allow_pickle=allow_pickle)
    if report.fresh:
        logger.warning("%s: fresh weights, to be trained: %s", name, _in_any_block(report.fresh))
    if report.unused:
        logger.info("%s: weights not used: %s", name, _in_any_block(report.unused))
    return model.eval()


def save_pretrained(
    model: nn.Module, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write ``config.json`` and ``model.safetensors``; other files of the folder are left alone.

    Raises:
        UserError: the folder holds one of the two already and ``overwrite`` is false, or is a file.
    """
    folder = Path(folder)
    if folder.is_file():
        raise UserError(f"{folder} is a file; give a folder")
    if not folder.exists():
        with files.new_folder(folder) as new:
            _write(model, new)
        return
    there = [name for name in (CONFIG, WEIGHTS) if (folder / name).exists()]
    if there and not overwrite:
        raise UserError(f"{folder} has a {there[0]}; choose another folder or give overwrite=True")
    staged = folder / ".saving"
    with files.new_folder(staged, overwrite=True) as new:
        _write(model, new)
    for file in staged.iterdir():
        file.replace(folder / file.name)
    staged.rmdir()


def _write(model: nn.Module, folder: Path) -> None:
    assert isinstance(model.config, _Config)
    config = {"architectures": [type(model).__name__], **model.config.to_dict()}
    files.write_json(folder / CONFIG, config)
    weights = model.file_weights() if isinstance(model, _Renamed) else model.state_dict()
    files.write_tensors(folder / WEIGHTS, weights)


def load_weights(
    model: nn.Module, folder: Path, *, fresh_head: bool = False, allow_pickle: bool = False
) -> LoadReport:
    """Set every parameter of a model from a folder's weights, or draw it where that is right.

    Names may lack the prefix ``bert.`` or have it, and may be the old ``gamma`` and ``beta``.

    Args:
        model: a model of ``heedful.models``; its parameters may be uninitialised.
        folder: holds the weights.
        fresh_head: see ``from_pretrained``.
        allow_pickle: the same.

    Raises:
        UserError: an encoder weight or a part of a head is missing, the file has an encoder weight
            that the model has not, or a shape or a type is wrong.
    """
    return set_weights(model, read_weights(folder, allow_pickle), folder, fresh_head=fresh_head)


def set_weights(
    model: nn.Module, tensors: Mapping[str, Tensor], folder: Path, *, fresh_head: bool = False
) -> LoadReport:
    """Do the same with weights that were read.

    Args:
        model: see ``load_weights``.
        tensors: the weights, under the names of a file.
        folder: what an error calls the place that they come from.
        fresh_head: see ``from_pretrained``.
    """
    given = _plain_names(tensors, folder)
    if fresh_head:
        given = {name: tensor for name, tensor in given.items() if _part(name) in BODY}
    parameters = {_plain_name(name): value for name, value in model.named_parameters()}
    missing = [name for name in parameters if name not in given]
    surplus = [name for name in given if name not in parameters]

    needed = {*ENCODER, *(_part(name) for name in given if name in parameters)}
    wrong = [name for name in missing if _part(name) in needed]
    if wrong:
        raise UserError(f"{folder}: weights are missing: {listed(wrong)}")
    wrong = [name for name in surplus if _part(name) in ENCODER]
    if wrong:
        raise UserError(f"{folder}: weights that {CONFIG} does not speak of: {listed(wrong)}")
    for name, parameter in parameters.items():
        if name in given:
            _check_fit(name, given[name], parameter, folder)

    for part_name, part in model.named_modules():
        owned = [f"{part_name}.{name}" for name, _ in part.named_parameters(recurse=False)]
        if any(_plain_name(name) in missing for name in owned):
            initialise(part, config_of(model).initializer_range)
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name in given:
                parameter.copy_(given[name])
    return LoadReport(fresh=missing, unused=surplus)


def _part(name: str) -> str:
    """Return which part of a model a weight is of; a file has all of a part or nothing of it."""
    for part in OPTIONAL:
        if f".{part}." in name:
            return part
    # The heads of pre-training stand together under ``cls.``.
    return ".".join(name.split(".")[: 2 if name.startswith("cls.") else 1])


def _in_any_block(names: list[str]) -> str:
    """Name what all blocks have once."""
    return ", ".join(dict.fromkeys(re.sub(r"layer\.\d+", "layer.*", name) for name in names))


def _check_fit(name: str, given: Tensor, parameter: Tensor, folder: Path) -> None:
    if given.shape != parameter.shape:
        way_out = "" if _part(name) in BODY else ", or fresh_head=True to start it fresh"
        raise UserError(
            f"{folder}: {name} has shape {tuple(given.shape)}; "
            f"the model expects {tuple(parameter.shape)}{way_out}"
        )
    if not given.is_floating_point():
        raise UserError(f"{folder}: {name} has type {given.dtype}; weights are floating point")


def _plain_name(name: str) -> str:
    """Return the name without the prefix of a model with a head, and in today's words."""
    name = name.removeprefix("bert.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name


def _plain_names(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        key = _plain_name(name)
        if key in plain:
            raise UserError(f"{folder}: {key} is there twice, under two names")
        if key not in BUFFERS:
            plain[key] = tensor
    return plain
