"""Read and write configurations in model folders."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, Self, TypedDict, TypeVar, Unpack, dataclass_transform

from heedful import files
from heedful.arguments import suggest_in_construction
from heedful.errors import UserError, check_known, unknown_name
from heedful.models.label_names import merge_labels
from heedful.models.loading import changed, family_of
from heedful.models.pretrained import CONFIG, check_no_overwrite
from heedful.sources import resolve, takes_download_options

CALL_DEFAULTS = ("output_attentions", "output_hidden_states", "return_dict")
"""Fields with a default of calls, which files do not keep."""


class ConfigOptions(TypedDict, total=False):
    """Fields of configurations; each family has some of them."""

    dropout: float
    num_labels: int
    id2label: Mapping[int, str]
    label2id: Mapping[str, int]
    problem_type: str | None
    output_attentions: bool
    output_hidden_states: bool
    return_dict: bool
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    classifier_dropout: float | None
    max_position_embeddings: int
    type_vocab_size: int
    initializer_range: float
    layer_norm_eps: float
    pad_token_id: int | None
    eos_token_id: int | None
    position_embedding_type: str
    is_decoder: bool
    add_cross_attention: bool
    use_cache: bool
    tie_word_embeddings: bool
    chunk_size_feed_forward: int
    pruned_heads: Mapping[int, list[int]]
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int
    n_layers: int
    n_heads: int
    dim: int
    hidden_dim: int
    d_model: int
    d_inner: int
    image_size: int
    patch_size: int
    num_channels: int


SETTABLE = frozenset({"pad_token_id", "bos_token_id", "eos_token_id", "use_cache", "id2label"})
"""Fields that do not shape a model, so that they can be assigned once there is one."""

ATTENTION = ("eager", "sdpa")
"""The reference's implementations of attention that compute the same."""

_FIXED = "_fixed"
"""Attribute of a configuration that a model has."""

Config = TypeVar("Config", bound="StoredConfig")
P = ParamSpec("P")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def configuration(kind: type[Config]) -> type[Config]:
    """Make a class a dataclass of keyword arguments.

    Its fields can be assigned until a model has it, and then those in `SETTABLE`. It has a hash,
    like a frozen dataclass.
    """
    kind = suggest_in_construction(dataclass(frozen=True, kw_only=True)(kind))
    kind.__init__ = _takes_more(kind.__init__)  # type: ignore[method-assign]
    kind.__setattr__ = _assign  # type: ignore[assignment, method-assign]
    return kind


def _takes_more(construct: Callable[P, None]) -> Callable[P, None]:
    """Decorate a constructor: code for the reference may give two options more.

    These are ``label2id``, from which the names of outputs follow, and ``attn_implementation``,
    which makes no difference.
    """

    @wraps(construct)
    def call(*args: P.args, **named: P.kwargs) -> None:
        implementation = named.pop("attn_implementation", None)
        if implementation is not None:
            check_known("attn_implementation", str(implementation), ATTENTION)
        label2id: Any = named.pop("label2id", None)
        if label2id is not None:
            given: Any = named.get("id2label")
            named["id2label"] = merge_labels(given, label2id, "configuration")
        construct(*args, **named)

    return call


def fix_shape(config: object) -> None:
    """Let only fields in `SETTABLE` of a configuration be assigned: a model has its shape."""
    if isinstance(config, StoredConfig):
        object.__setattr__(config, _FIXED, True)


def _assign(config: "StoredConfig", name: str, value: object) -> None:
    """Assign a field, or the property ``label2id``; see ``StoredConfig.update``."""
    config.update({name: value})


def _check_change(config: "StoredConfig", name: str) -> None:
    """Check that a field, or the property ``label2id``, may change.

    Raises:
        UserError: there is no such field, or a model has the configuration and the field shapes it.
    """
    names = [field.name for field in fields(config)]
    if name not in (*names, "label2id"):
        raise unknown_name(f"field of {type(config).__name__}", name, names)
    fixed = getattr(config, _FIXED, False)
    if fixed and name in CALL_DEFAULTS:
        raise UserError(f"{name} is a default of calls, not of weights; set model.{name} instead")
    if fixed and name not in SETTABLE | {"label2id"}:
        raise UserError(
            f"{name} cannot change once a model has this configuration: give it to from_pretrained "
            "of the model or of another configuration"
        )


def _replace_all(config: "StoredConfig", changes: Mapping[str, Any]) -> None:
    """Change fields together.

    Raises:
        UserError: a value is not supported, or a model has the configuration and does not fit.
    """
    new: Any = changed(config, changes)
    fixed, name = getattr(config, _FIXED, False), next(iter(changes))
    now, before = (getattr(one, "num_labels", None) for one in (new, config))
    if fixed and now != before:
        raise UserError(f"{name} has {now} names; the model has {before} outputs")
    now, before = (getattr(one, "padding_position", None) for one in (new, config))
    if fixed and now != before:
        raise UserError(f"{name} cannot change in this family: positions start after it")
    for field in fields(config):
        object.__setattr__(config, field.name, getattr(new, field.name))


class StoredConfig(ABC):
    """A configuration stored in a ``config.json``. Each subclass is a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> Self:
        """Read a ``config.json``.

        Raises:
            UserError: the file cannot be read or is of another family, a key is unknown, or its
                value is not supported.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the content of a ``config.json``."""

    @property
    def model_type(self) -> str:
        """The name of the family in files."""
        return str(self.to_dict()["model_type"])

    def update(self, config_dict: Mapping[str, Any]) -> None:
        """Assign several fields together.

        Args:
            config_dict: names of fields, or ``label2id``, and their new values.

        Raises:
            UserError: there is no such field, a model has the configuration and a field shapes it,
                or a value is not supported.
        """
        names = {field.name for field in fields(self)}
        new = {
            name: value
            for name, value in config_dict.items()
            if name not in names or getattr(self, name) != value
        }
        for name in new:
            _check_change(self, name)
        if new:
            _replace_all(self, new)

    def to_json_string(self) -> str:
        """Return the text of a ``config.json``."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike[str]) -> Self:
        """Read a ``config.json``, whatever its name; see `read`."""
        return cls.read(Path(json_file))

    def to_json_file(self, json_file_path: str | os.PathLike[str]) -> None:
        """Write the content of a ``config.json`` to a file, and replace what was there."""
        with files.new_file(Path(json_file_path), overwrite=True) as partial:
            files.write_json(partial, self.to_dict())

    @classmethod
    @takes_download_options
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        **options: Unpack[ConfigOptions],
    ) -> Self:
        """Read the configuration of a model; ``dataclasses.replace`` changes it, too.

        Args:
            name: see ``heedful.sources.resolve``; or a ``config.json``, whatever its name.
            revision: commit, tag or branch of a hub name.
            options: new values of fields, and ``dropout`` for all dropouts.

        Raises:
            UserError: the model does not exist or is of another family, or there is no such
                option; see also `read`.
        """
        if Path(name).is_file():
            return changed(cls.read(Path(name)), options)
        folder = resolve(name, revision)
        model_type, family = family_of(folder)
        if family.config_class() is not cls:
            call = f"{family.config}.from_pretrained"
            raise UserError(f"{folder}: model_type is {model_type!r}; call {call}")
        return changed(cls.read(folder / CONFIG), options)

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``config.json``; other files in the folder stay.

        Raises:
            UserError: the folder is a file, or ``overwrite`` is false and the file exists with
                another content.
        """
        folder, path = Path(folder), Path(folder) / CONFIG
        # A model adds its architecture to the file.
        if path.is_file() and files.read_json(path) | {"architectures": None} == (
            self.to_dict() | {"architectures": None}
        ):
            return
        check_no_overwrite(folder, (CONFIG,), overwrite=overwrite)
        folder.mkdir(parents=True, exist_ok=True)
        with files.new_file(path, overwrite=True) as partial:
            files.write_json(partial, self.to_dict())
