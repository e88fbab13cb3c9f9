"""A model of any family, from its folder."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from heedful import sources
from heedful.errors import UserError, unknown_name
from heedful.files import read_json
from heedful.models import FAMILIES, Family, Head
from heedful.models.pretrained import CONFIG


def load_model(
    name: str | os.PathLike[str],
    *,
    head: Head | None = None,
    num_labels: int | None = None,
    id2label: Mapping[int, str] | None = None,
    problem_type: str | None = None,
    dropout: float | None = None,
    is_decoder: bool | None = None,
    add_cross_attention: bool | None = None,
    fresh_head: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> Any:
    """Read a ``Model`` of any family in evaluation mode; what is None stays as the folder says.

    The class is the one that the folder's ``model_type`` and the head ask for; see its
    ``from_pretrained`` for what starts fresh and for the other options.

    Args:
        name: see ``heedful.sources.resolve``.
        head: what the model decides; None takes the head that the folder says.
        num_labels: number of outputs of a classifier.
        id2label: name of each output.
        problem_type: see ``BertConfig``.
        dropout: of the whole model.
        is_decoder: whether a token may attend to none after it.
        add_cross_attention: whether the blocks can attend to an encoder.
        fresh_head: whether to start the head fresh although the folder has weights for it.
        revision: commit, tag or branch of a hub name.
        allow_pickle: whether to read ``pytorch_model.bin`` where there is no safetensors file.

    Raises:
        UserError: there is no such model, its family is not known, has no such head or not such an
            option, or its weights do not fit its configuration.
    """
    folder = sources.resolve(name, revision)
    model_type, family = family_of(folder)
    head = head or head_of(folder)
    if head not in family.models:
        if head not in get_args(Head):
            raise unknown_name("head", str(head), get_args(Head))
        known = ", ".join(family.models)
        raise UserError(f"{folder}: no head {head!r} for model_type {model_type!r}; it has {known}")
    options = {
        "num_labels": num_labels,
        "id2label": id2label,
        "problem_type": problem_type,
        "is_decoder": is_decoder,
        "add_cross_attention": add_cross_attention,
        "fresh_head": fresh_head or None,
    }
    options = {key: value for key, value in options.items() if value is not None}
    config_class = family.config_class()
    known_options = {field.name for field in fields(config_class)}
    if len(family.models) > 1:
        known_options.add("fresh_head")
    for option in options:
        if option not in known_options:
            raise UserError(f"{folder}: no {option} for model_type {model_type!r}; leave it out")
    options |= dict.fromkeys(config_class.DROPOUTS, dropout)
    if allow_pickle:
        options["allow_pickle"] = True
    return family.model_class(head).from_pretrained(name, revision=revision, **options)


def family_of(folder: Path) -> tuple[str, Family]:
    """Return the ``model_type`` of a folder's configuration, and its family.

    Raises:
        UserError: the configuration cannot be read, or the family is not known.
    """
    path = _config_path(folder)
    # Google's original BERTs, and the reference's oldest, do not say what they are.
    model_type = read_json(path).get("model_type", "bert")
    if model_type not in FAMILIES:
        raise UserError(
            f"{path}: model_type is {model_type!r}; expected one of {', '.join(FAMILIES)}"
        )
    return model_type, FAMILIES[model_type]


def head_of(folder: Path) -> Head:
    """Return the head that a folder says its model has: the body alone where it says none.

    Raises:
        UserError: see ``family_of``.
    """
    _, family = family_of(folder)
    if len(family.models) == 1:
        return next(iter(family.models))
    architectures = read_json(_config_path(folder)).get("architectures") or []
    for head, path in family.models.items():
        if path.rpartition(".")[2] in architectures:
            return head
    return "body"


def read_config(folder: Path) -> Any:
    """Read the configuration of a folder of any family.

    Raises:
        UserError: see ``family_of``, or a key is unknown, or its value not supported.
    """
    _, family = family_of(folder)
    return family.config_class().read(folder / CONFIG)


def _config_path(folder: Path) -> Path:
    """Return where the configuration is; Google's original BERTs have a name of their own."""
    original = folder / "bert_config.json"
    return original if original.exists() and not (folder / CONFIG).exists() else folder / CONFIG
