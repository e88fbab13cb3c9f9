"""Load a model of any family from its folder."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import torch
from torch.overrides import TorchFunctionMode

from heedful import sources
from heedful.arguments import suggest_arguments
from heedful.errors import UserError, check_known, unknown_name
from heedful.files import read_json
from heedful.models import FAMILIES, PUBLIC, Family, Head
from heedful.models.generation_defaults import read_defaults
from heedful.models.pretrained import CONFIG, LoadReport
from heedful.models.weights import read_weights

if TYPE_CHECKING:
    from heedful.models.model import Model
    from heedful.models.stored_config import StoredConfig

    AnyModel = TypeVar("AnyModel", bound=Model)
    AnyConfig = TypeVar("AnyConfig", bound=StoredConfig)

logger = logging.getLogger(__name__)


@sources.takes_download_options
@suggest_arguments
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
    memory_map: bool = False,
    require_all_weights: bool = False,
) -> Any:
    """Load a ``Model`` of any family in evaluation mode.

    An option that is None keeps the value of the folder's configuration. The folder's
    ``model_type`` and the head determine the class. See its ``from_pretrained`` for the weights
    that may start fresh and for further details of the options.

    Args:
        name: see ``heedful.sources.resolve``.
        head: the head to load; None takes the head that the folder names.
        num_labels: number of outputs of a classifier.
        id2label: name of each output.
        problem_type: see ``BertConfig``.
        dropout: dropout of the whole model.
        is_decoder: whether attention is causal.
        add_cross_attention: whether the blocks have cross-attention to an encoder.
        fresh_head: whether to start the head fresh even if the folder has weights for it.
        revision: commit, tag or branch of a hub name.
        allow_pickle: whether to read ``pytorch_model.bin`` if there is no safetensors file.
        memory_map: whether an encoder's weights stay memory-mapped instead of being copied. This
            loads faster, but the memory alignment differs, so the last bit of a result may differ.
            No process may write to the file while it is mapped; heedful never does.
        require_all_weights: whether to reject a folder with missing weights instead of initialising
            them.

    Raises:
        UserError: the model does not exist, its family is unknown or lacks the head or an option,
            or its weights do not match its configuration.
    """
    folder = sources.resolve(name, revision, allow_pickle=allow_pickle)
    model_type, family = family_of(folder)
    head = head or head_of(folder)
    if head not in family.models:
        if head not in get_args(Head):
            raise unknown_name("head", str(head), get_args(Head))
        heads = ", ".join(family.models)
        raise UserError(f"{folder}: no head {head!r} for model_type {model_type!r}; it has {heads}")
    return read_model(
        family.model_class(head),
        name,
        {
            "num_labels": num_labels,
            "id2label": id2label,
            "problem_type": problem_type,
            "dropout": dropout,
            "is_decoder": is_decoder,
            "add_cross_attention": add_cross_attention,
        },
        fresh_head=fresh_head,
        revision=revision,
        allow_pickle=allow_pickle,
        memory_map=memory_map,
        require_all_weights=require_all_weights,
    )


def merge_dtypes(
    dtype: torch.dtype | str | None, torch_dtype: torch.dtype | str | None
) -> torch.dtype | str | None:
    """Return the dtype that two arguments name, which must agree.

    Raises:
        UserError: they differ.
    """
    if dtype is not None and torch_dtype is not None and dtype != torch_dtype:
        raise UserError(f"dtype {dtype} and torch_dtype {torch_dtype} differ; give one")
    return torch_dtype if dtype is None else dtype


def read_model(
    cls: "type[AnyModel]",
    name: str | os.PathLike[str],
    options: Mapping[str, Any],
    *,
    fresh_head: bool,
    revision: str | None,
    allow_pickle: bool,
    memory_map: bool = False,
    require_all_weights: bool = False,
    config: Any = None,
    add_pooling_layer: bool | None = None,
    ignore_mismatched_sizes: bool = False,
    dtype: torch.dtype | str | None = None,
) -> "AnyModel":
    """Load a model of a known class; see ``Model.from_pretrained``.

    Args:
        cls: class of the model.
        name: see ``heedful.sources.resolve``.
        options: changes to the folder's configuration; None changes nothing.
        fresh_head: see ``Model.from_pretrained``.
        revision: see ``Model.from_pretrained``.
        allow_pickle: see ``Model.from_pretrained``.
        memory_map: see ``load_model``.
        require_all_weights: see ``load_model``.
        config: see ``Model.from_pretrained``.
        add_pooling_layer: see ``Model.from_pretrained``.
        ignore_mismatched_sizes: see ``Model.from_pretrained``.
        dtype: see ``Model.from_pretrained``.
    """
    folder = sources.resolve(name, revision, allow_pickle=allow_pickle)
    model_type, family = family_of(folder, cls)
    if config is None:
        config = family.config_class().read(folder / CONFIG)
    elif isinstance(config, str | os.PathLike):
        config = family.config_class().from_pretrained(config)
    if type(config) is not family.config_class():
        raise UserError(f"config is a {type(config).__name__}; {folder} needs a {family.config}")
    allowed = {"dropout", *config.DROPOUTS, *(field.name for field in fields(config))}
    options = {
        key: value
        for key, value in options.items()
        # A configuration without this field may have it as a constant; that value is accepted.
        if value is not None and (key in allowed or getattr(config, key, None) != value)
    }
    for_heads = {"fresh_head": fresh_head, "ignore_mismatched_sizes": ignore_mismatched_sizes}
    if len(family.models) > 1:
        allowed.update(for_heads)
    for option in [*options, *(name for name, on in for_heads.items() if on)]:
        if option not in allowed:
            raise UserError(f"{folder}: no {option} for model_type {model_type!r}; leave it out")
    config = cls.changed_config(config, _changes(options, config))
    pooling = {} if add_pooling_layer is None else {"add_pooling_layer": add_pooling_layer}
    if pooling and "add_pooling_layer" not in signature(cls.__init__).parameters:
        raise UserError(f"{cls.__name__} has no option add_pooling_layer; leave it out")
    weights = read_weights(folder, allow_pickle)
    chosen = None if dtype is None else dtype_of(dtype, weights)
    with _without_weights(cls):
        model = cls(config, **pooling) if pooling else cls.from_config(config)
    if chosen == torch.float64:
        model.to(chosen)  # before the weights, which float32 would round
    report = model.set_file_weights(
        weights,
        folder,
        fresh_head=fresh_head,
        ignore_mismatched_sizes=ignore_mismatched_sizes,
    )
    if require_all_weights and report.fresh:
        missing = _in_any_block(report.fresh)
        raise UserError(f"{folder}: weights are missing: {missing}; train it for a task first")
    if hasattr(model, "generate"):
        model.generation_defaults = read_defaults(folder, model.config)
    if not memory_map:
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
    log_report(report, name)
    if chosen is not None:
        model.to(chosen)
    return model.eval()


def log_report(report: LoadReport, name: str | os.PathLike[str]) -> None:
    """Log which weights start fresh, and which weights of the folder are not used."""
    if report.fresh:
        logger.warning("%s: fresh weights, to be trained: %s", name, _in_any_block(report.fresh))
    if report.unused:
        logger.info("%s: weights not used: %s", name, _in_any_block(report.unused))


def dtype_of(dtype: torch.dtype | str, weights: Mapping[str, torch.Tensor]) -> torch.dtype:
    """Return the dtype that a user chose: itself, its name, or ``"auto"`` for that of the file."""
    if dtype == "auto":
        return next(one.dtype for one in weights.values() if one.is_floating_point())
    named = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(named, torch.dtype) or not named.is_floating_point:
        raise UserError(f"dtype is {dtype!r}; expected 'auto', torch.float32, torch.bfloat16, ...")
    return named


@contextmanager
def _without_weights(cls: "type[Model]") -> Iterator[None]:
    """Neither allocate nor draw the weights of a new model: they are read next.

    A user's own class may have buffers and layers of any kind, which only it can initialise.
    """
    if not cls.__module__.startswith("heedful."):
        yield
        return
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Skip the initialisation of new weights.

    Drawing random numbers on the device "meta" makes torch import its compiler. That import takes
    longer than all other work for a prediction.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call a torch function, unless it fills a tensor with random numbers."""
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def changed(config: "AnyConfig", options: Mapping[str, Any]) -> "AnyConfig":
    """Return a copy of a configuration with the options of a user.

    Args:
        config: the configuration.
        options: new values of fields, ``label2id``, and ``dropout`` for all dropouts.

    Raises:
        UserError: there is no such option, or its value is not supported.
    """
    allowed = {field.name for field in fields(config)}
    if hasattr(config, "label2id"):
        allowed |= {"dropout", "label2id"}
    for option in options:
        check_known("option", option, allowed)
    options = dict(options)
    if (label2id := options.pop("label2id", None)) is not None:
        inverse = {number: label for label, number in label2id.items()}
        if options.setdefault("id2label", inverse) != inverse:
            raise UserError(f"id2label and label2id differ: {options['id2label']} and {label2id}")
    return replace(config, **_changes(options, config))


def _changes(options: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """Convert options to changes of configuration fields."""
    changes = dict(options)
    if (dropout := changes.pop("dropout", None)) is not None:
        changes = dict.fromkeys(config.DROPOUTS, dropout) | changes
    if "num_labels" in changes and changes["num_labels"] == 0:
        raise UserError(f"num_labels is {changes['num_labels']}; it must be at least 1")
    if "id2label" in changes:
        if isinstance(changes["id2label"], Mapping):  # else the configuration rejects it
            changes["id2label"] = dict(changes["id2label"])
        changes.setdefault("num_labels", 0)
    elif changes.get("num_labels", 0) == getattr(config, "num_labels", None):
        del changes["num_labels"]  # keep the folder's label names
    elif "num_labels" in changes:
        changes["id2label"] = {}
    return changes


def _in_any_block(names: list[str]) -> str:
    """Join names, listing a weight that all blocks have once."""
    return ", ".join(dict.fromkeys(re.sub(r"layer\.\d+", "layer.*", name) for name in names))


def family_of(folder: Path, cls: "type[Model] | None" = None) -> tuple[str, Family]:
    """Return the ``model_type`` of a folder's configuration, and its family.

    Args:
        folder: the folder with the configuration.
        cls: a model class that the family must have, or a subclass of one.

    Raises:
        UserError: the configuration cannot be read, or its family is unknown or lacks the class.
    """
    path = _config_path(folder)
    # Google's original BERTs and the reference's oldest models have no model_type.
    model_type = read_json(path).get("model_type", "bert")
    # A family's class may derive from another family's: the nearest public base decides.
    name = (
        next((kind.__name__ for kind in cls.__mro__ if kind.__name__ in PUBLIC), None)
        if cls
        else None
    )
    valid = [kind for kind, family in FAMILIES.items() if not cls or name in family.models.values()]
    if model_type not in valid:
        expected = " or ".join(map(repr, valid)) if cls else f"one of {', '.join(valid)}"
        raise UserError(f"{path}: model_type is {model_type!r}; expected {expected}")
    return model_type, FAMILIES[model_type]


def head_of(folder: Path) -> Head:
    """Return the head that a folder's configuration names, ``body`` if it names none.

    Raises:
        UserError: see ``family_of``.
    """
    _, family = family_of(folder)
    if len(family.models) == 1:
        return next(iter(family.models))
    path = _config_path(folder)
    architectures = read_json(path).get("architectures") or []
    if not isinstance(architectures, list):
        raise UserError(f"{path}: architectures is {architectures!r}; it must be a list of names")
    for head, class_name in family.models.items():
        if class_name in architectures:
            return head
    return "body"


def bidirectional_option(name: str | os.PathLike[str], revision: str | None = None) -> bool | None:
    """Return the ``is_decoder`` option of `load_model` that makes attention bidirectional.

    None if the family has no such option, such as GPT-2.

    Args:
        name: see ``heedful.sources.resolve``.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: see ``family_of``.
    """
    _, family = family_of(sources.resolve(name, revision))
    has_option = any(field.name == "is_decoder" for field in fields(family.config_class()))
    return False if has_option else None


def read_config(folder: Path) -> Any:
    """Read the configuration of a folder of any family.

    Raises:
        UserError: see ``family_of``; or a key is unknown or its value is not supported.
    """
    _, family = family_of(folder)
    return family.config_class().read(folder / CONFIG)


def _config_path(folder: Path) -> Path:
    """Return the path of the configuration; Google's original BERTs use another file name."""
    original = folder / "bert_config.json"
    return original if original.exists() and not (folder / CONFIG).exists() else folder / CONFIG
