"""Base classes for a user's models around a body, as in code for the reference.

::

    class Classifier(BertPreTrainedModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.bert = BertModel(config)
            self.classifier = nn.Linear(config.hidden_size, config.num_labels)
            self.init_weights()

``Classifier.from_pretrained(folder, num_labels=3)`` then loads the body, and ``save_pretrained``
saves all.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self, Unpack

import torch
from torch import nn

from heedful.errors import UserError, check_known
from heedful.models import loading, pretrained
from heedful.models.albert.config import AlbertConfig
from heedful.models.bert.config import BertConfig
from heedful.models.deberta_v2.config import DebertaV2Config
from heedful.models.distilbert.config import DistilBertConfig
from heedful.models.electra.config import ElectraConfig
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.models.roberta.config import RobertaConfig
from heedful.models.stored_config import ATTENTION, ConfigOptions
from heedful.models.weights import read_weights
from heedful.sources import resolve, takes_download_options


class CustomModel(Model):
    """A model that a user puts together from a body and further layers.

    Args:
        config: the configuration of the body.
    """

    config_class: ClassVar[type[Any]]
    """Class of the configuration."""
    base_model_prefix: ClassVar[str]
    """Attribute name of the body, which names its weights in files."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Call ``forward``, and return what it returns."""
        return nn.Module.__call__(self, *inputs, **options)

    @property
    def body(self) -> Model:
        """The part that computes the hidden states."""
        body: Model = self.get_submodule(self.base_model_prefix)  # type: ignore[assignment]
        return body

    @property
    def file_names(self) -> Mapping[str, str]:  # type: ignore[override]
        """See ``Model``."""
        return self.body.file_names

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether the body recomputes activations; see ``Model``."""
        return self.body.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.body.gradient_checkpointing = recompute

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""
        return self.body.get_input_embeddings()

    def _resize_vocabulary(self, size: int) -> nn.Embedding:
        embeddings = self.body.resize_token_embeddings(size)
        self.config = self.body.config
        return embeddings

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Remove attention heads from the body; see ``pruning.prune_heads``."""
        self.body.prune_heads(heads)
        self.config = self.body.config

    @classmethod
    @takes_download_options
    def from_pretrained(  # type: ignore[override]
        cls,
        name: str | os.PathLike[str],
        *inputs: Any,
        config: Any = None,
        ignore_mismatched_sizes: bool = False,
        dtype: torch.dtype | str | None = None,
        torch_dtype: torch.dtype | str | None = None,
        attn_implementation: str | None = None,
        revision: str | None = None,
        allow_pickle: bool = False,
        **options: Unpack[ConfigOptions],
    ) -> Self:
        """Load a model in evaluation mode. Weights that the folder lacks start fresh.

        Args:
            name: see ``heedful.sources.resolve``.
            inputs: further arguments of the class.
            config: the configuration instead of the folder's.
            ignore_mismatched_sizes: whether weights of another size in the folder start fresh.
            dtype: see ``Model.from_pretrained``.
            torch_dtype: see ``Model.from_pretrained``.
            attn_implementation: see ``Model.from_pretrained``.
            revision: commit, tag or branch of a hub name.
            allow_pickle: whether to read ``pytorch_model.bin`` if there is no safetensors file.
            options: fields of the configuration to change, and further arguments of the class.

        Raises:
            UserError: see ``Model.from_pretrained``.
        """
        if attn_implementation is not None:
            check_known("attn_implementation", attn_implementation, ATTENTION)
        folder = resolve(name, revision, allow_pickle=allow_pickle)
        model_type, family = loading.family_of(folder)
        if family.config_class() is not cls.config_class:
            expected = cls.config_class.__name__
            raise UserError(
                f"{folder}: model_type is {model_type!r}, but {cls.__name__} needs {expected}"
            )
        config = cls.config_class.read(folder / CONFIG) if config is None else config
        names = {"dropout", "label2id", *(field.name for field in fields(config))}
        arguments: dict[str, Any] = {**options}
        changes = {name: arguments.pop(name) for name in options if name in names}
        model = cls(loading.changed(config, changes), *inputs, **arguments)
        if not isinstance(getattr(model, cls.base_model_prefix, None), Model):
            raise UserError(
                f"{cls.__name__} has no body; its constructor must set {cls.base_model_prefix}"
            )
        weights = read_weights(folder, allow_pickle)
        chosen = loading.merge_dtypes(dtype, torch_dtype)
        chosen = None if chosen is None else loading.dtype_of(chosen, weights)
        if chosen == torch.float64:
            model.to(chosen)  # before the weights, which float32 would round
        report = pretrained.set_weights(
            model, weights, folder, ignore_mismatched_sizes=ignore_mismatched_sizes
        )
        loading.log_report(report, name)
        return (model if chosen is None else model.to(chosen)).eval()


class BertPreTrainedModel(CustomModel):
    """Base class of a model around a ``BertModel``, its attribute ``bert``."""

    config_class, base_model_prefix = BertConfig, "bert"


class RobertaPreTrainedModel(CustomModel):
    """Base class of a model around a ``RobertaModel``, its attribute ``roberta``."""

    config_class, base_model_prefix = RobertaConfig, "roberta"


class DistilBertPreTrainedModel(CustomModel):
    """Base class of a model around a ``DistilBertModel``, its attribute ``distilbert``."""

    config_class, base_model_prefix = DistilBertConfig, "distilbert"


class AlbertPreTrainedModel(CustomModel):
    """Base class of a model around an ``AlbertModel``, its attribute ``albert``."""

    config_class, base_model_prefix = AlbertConfig, "albert"


class ElectraPreTrainedModel(CustomModel):
    """Base class of a model around an ``ElectraModel``, its attribute ``electra``."""

    config_class, base_model_prefix = ElectraConfig, "electra"


class DebertaV2PreTrainedModel(CustomModel):
    """Base class of a model around a ``DebertaV2Model``, its attribute ``deberta``."""

    config_class, base_model_prefix = DebertaV2Config, "deberta"
