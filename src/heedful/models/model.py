"""The base class of all models."""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from heedful.arguments import check_arguments, suggest_arguments
from heedful.errors import UserError, check_known
from heedful.models import loading, pretrained
from heedful.models.label_names import merge_labels
from heedful.models.pretrained import LoadReport
from heedful.models.reference_methods import ReferenceMethods
from heedful.models.state_dicts import in_own_names
from heedful.models.stored_config import ATTENTION, CALL_DEFAULTS, fix_shape
from heedful.models.weights import renamed
from heedful.sources import takes_download_options


class Model(ReferenceMethods):
    """A module with a configuration that can be saved to a folder and loaded from it.

    Attributes:
        config: current sizes and options.
        gradient_checkpointing: whether training stores only each block's input and recomputes
            the activations in the backward pass. Saves memory and takes about a third more time.
        output_attentions: default of the argument in calls.
        output_hidden_states: default of the argument in calls.
        return_dict: whether calls return an output with named values, or a tuple of them.
        loaded: names of the parameters that were loaded from a folder.
        generation_defaults: default options of ``generate``, as in ``generation_config.json``.
    """

    config: Any
    gradient_checkpointing: bool = False
    output_attentions: bool = False
    output_hidden_states: bool = False
    return_dict: bool = True
    loaded: frozenset[str] = frozenset()
    generation_defaults: Mapping[str, Any] = {}

    supports_checkpointing: ClassVar[bool] = False
    """Whether ``gradient_checkpointing`` may be set."""
    packing_token: ClassVar[Literal["first", "last"] | None] = None
    """If a head reads only this token's last hidden state, training packs sequences and so skips
    nearly all padding. None if there is no such token."""
    prefix: ClassVar[str] = ""
    """Attribute name of the body in a model with a head."""
    file_names: Mapping[str, str] = {}
    """Maps module names to their names in a weight file, where the two differ."""

    def __new__(cls, *args: object, **named: object) -> Self:
        """Reject a folder name passed as the configuration, and take its defaults of calls.

        Raises:
            UserError: the first argument is a path. The message names the call to use instead.
        """
        if args and isinstance(args[0], str | os.PathLike):
            raise UserError(
                f"{cls.__name__}(...) makes a new model of a configuration; to read one from a "
                f"folder, call {cls.__name__}.from_pretrained({os.fspath(args[0])!r})"
            )
        model = super().__new__(cls)
        config = named.get("config", args[0] if args else None)
        for name in CALL_DEFAULTS:
            vars(model)[name] = getattr(config, name, getattr(cls, name))
        return model

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a configuration keeps its shape from then on."""
        if name == "config":
            fix_shape(value)
        super().__setattr__(name, value)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Call ``forward``, which documents and checks all arguments except ``return_dict``.

        Args:
            inputs: arguments of ``forward``.
            options: arguments of ``forward``, and ``return_dict``: whether to return an output with
                named values, or a tuple of those that are not None. The default is the attribute.
        """
        return_dict = options.pop("return_dict", None)
        for name in ("output_attentions", "output_hidden_states"):
            if getattr(self, name):
                options.setdefault(name, True)
        try:
            output = super().__call__(*inputs, **options)
        except TypeError:
            check_arguments(self.forward, options, called=type(self).__name__)
            raise
        if self.return_dict if return_dict is None else return_dict:
            return output
        return output.to_tuple()

    @property
    def body(self) -> "Model":
        """The part that computes the hidden states; the model itself if it has no head."""
        return self

    def with_submodule(self, name: str, part: object) -> Self:
        """Return a copy with one submodule replaced; all other submodules are shared."""
        twin = copy.copy(self)
        twin._modules = {**self._modules, name: part}  # type: ignore[dict-item]
        return twin

    def with_exported(self, exported: Any) -> Any:
        """Return the model to score when an exported program computes the predictions.

        Args:
            exported: the program, with the call signature of the part that computes the
                predictions.
        """
        return exported

    def with_body(self, body: "Model") -> "Model":
        """Return this model with another body."""
        return body

    @property
    def trains_packed(self) -> bool:
        """Whether training skips nearly all padding, so that a batch may mix lengths."""
        return False

    @property
    def max_positions(self) -> int:
        """Maximum sequence length in tokens."""
        limit: int = self.config.max_position_embeddings
        return limit

    @property
    def first_position(self) -> int:
        """Position of the first token of a sequence."""
        return 0

    @property
    def default_length(self) -> int:
        """Default sequence length in tokens."""
        return self.max_positions

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return the names of the head masks that ``forward`` takes, with their shapes (L, H).

        Heads can be pruned only from an attention that has a mask.
        """
        return {}

    def why_not_compiled(self) -> str | None:
        """Return why this body cannot be compiled; None if it can be."""
        return f"{type(self).__name__} cannot be compiled"

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters on top of the body, which may have their own learning rate."""
        return []

    def fresh_head_parameters(self) -> list[nn.Parameter]:
        """Return those of `head_parameters` that were not loaded from a folder.

        A loaded pooler counts as fresh if any of them is: its training says little to a new head.
        """
        loaded = {
            id(parameter)
            for part in self._models()
            for name, parameter in part.named_parameters()
            if name in part.loaded
        }
        head = self.head_parameters()
        fresh = {id(parameter) for parameter in head} - loaded
        pooler = getattr(self.body, "pooler", None)
        if fresh and pooler is not None:
            fresh |= {id(parameter) for parameter in pooler.parameters()}
        return [parameter for parameter in head if id(parameter) in fresh]

    def reinitialize(self, part: nn.Module) -> None:
        """Reinitialise the weights of a submodule."""
        pretrained.initialise(part, self.config.initializer_range)
        drawn = {id(parameter) for parameter in part.parameters()}
        for model in self._models():
            names = {name for name, value in model.named_parameters() if id(value) in drawn}
            model.loaded -= names

    def _models(self) -> "Iterator[Model]":
        """Yield this model and the models inside it."""
        return (part for part in self.modules() if isinstance(part, Model))

    def input_vectors(self) -> nn.Module:
        """Return the module that outputs the input vectors, of shape (B, S, W)."""
        return self.get_input_embeddings()

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings. The vocabulary size may change, the width may not.

        Raises:
            UserError: the width differs, or the model's vocabulary cannot change.
        """
        raise UserError(f"{type(self).__name__}: its vocabulary cannot be changed")

    def _resize_vocabulary(self, size: int) -> nn.Embedding:
        raise UserError(f"{type(self).__name__}: its vocabulary cannot be changed")

    @property
    def num_blocks(self) -> int:
        """Number of blocks `keep_blocks` can choose from, per stack; 0 if it cannot choose."""
        return 0

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks, in the given order. Applies to both stacks if there are two.

        Raises:
            UserError: the model does not support removing blocks.
        """
        raise UserError(f"{type(self).__name__}: its layers cannot be chosen from")

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Remove attention heads from the body; see ``pruning.prune_heads``.

        Raises:
            UserError: no heads, or not these heads, can be removed from the model.
        """
        raise UserError(f"{type(self).__name__}: its attention heads cannot be pruned")

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Create a model with fresh weights."""
        return cls(config)

    @classmethod
    def changed_config(cls, config: Any, changes: Mapping[str, Any]) -> Any:
        """Return a copy of a configuration with some fields changed."""
        return replace(config, **changes)

    @classmethod
    @takes_download_options
    @suggest_arguments
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        num_labels: int | None = None,
        id2label: Mapping[int, str] | None = None,
        label2id: Mapping[str, int] | None = None,
        problem_type: str | None = None,
        dropout: float | None = None,
        hidden_dropout_prob: float | None = None,
        attention_probs_dropout_prob: float | None = None,
        classifier_dropout: float | None = None,
        is_decoder: bool | None = None,
        add_cross_attention: bool | None = None,
        position_embedding_type: str | None = None,
        chunk_size_feed_forward: int | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
        config: Any = None,
        add_pooling_layer: bool | None = None,
        dtype: torch.dtype | str | None = None,
        torch_dtype: torch.dtype | str | None = None,
        attn_implementation: Literal["eager", "sdpa"] | None = None,
        revision: str | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """Load a model in evaluation mode, with float32 weights by default.

        An option that is None keeps the value of the folder's configuration. A head without
        weights in the folder starts fresh; the logger ``heedful.models.loading`` names its
        weights in a warning. Weights that this model lacks, such as another head's, are named at
        level INFO.

        Args:
            name: see ``heedful.sources.resolve``.
            num_labels: number of outputs of a classifier.
            id2label: name of each output.
            label2id: output of each name; derived from ``id2label``, and the reverse.
            problem_type: one of ``config.PROBLEM_TYPES``.
            dropout: dropout of the whole model, unless one of the next three options overrides it.
            hidden_dropout_prob: dropout of the embeddings and of each sublayer's output.
            attention_probs_dropout_prob: dropout of the attention weights.
            classifier_dropout: dropout before a classifier.
            is_decoder: whether attention is causal.
            add_cross_attention: whether the blocks have cross-attention to an encoder. Its
                weights may start fresh, like those of a head.
            position_embedding_type: one of ``config.POSITION_TYPES``. Its weights may start fresh,
                too.
            chunk_size_feed_forward: tokens per chunk of the feed-forward layers.
            output_attentions: see the class; the folder does not keep it.
            output_hidden_states: see the class; the folder does not keep it.
            return_dict: see the class; the folder does not keep it.
            fresh_head: whether to start the head fresh even if the folder has weights for it, as
                new labels need.
            ignore_mismatched_sizes: whether weights of another size in the folder start fresh.
            config: the configuration instead of the folder's, or the name of one.
            add_pooling_layer: whether the model has a pooler.
            dtype: dtype of the weights, or its name; ``"auto"`` is that of the folder.
            torch_dtype: old name of ``dtype``.
            attn_implementation: accepted, since the result is the same: heedful always uses the
                fused kernel, unless a call asks for attention weights.
            revision: commit, tag or branch of a hub name.
            allow_pickle: whether to read ``pytorch_model.bin`` if there is no safetensors file.

        Raises:
            UserError: the model does not exist, its configuration is not supported or lacks an
                option, or its weights do not match its configuration.
        """
        if attn_implementation is not None:
            check_known("attn_implementation", attn_implementation, ATTENTION)
        model = loading.read_model(
            cls,
            name,
            {
                "num_labels": num_labels,
                "id2label": merge_labels(id2label, label2id, "from_pretrained"),
                "problem_type": problem_type,
                "dropout": dropout,
                "hidden_dropout_prob": hidden_dropout_prob,
                "attention_probs_dropout_prob": attention_probs_dropout_prob,
                "classifier_dropout": classifier_dropout,
                "is_decoder": is_decoder,
                "add_cross_attention": add_cross_attention,
                "position_embedding_type": position_embedding_type,
                "chunk_size_feed_forward": chunk_size_feed_forward,
            },
            fresh_head=fresh_head,
            revision=revision,
            allow_pickle=allow_pickle,
            config=config,
            add_pooling_layer=add_pooling_layer,
            ignore_mismatched_sizes=ignore_mismatched_sizes,
            dtype=loading.merge_dtypes(dtype, torch_dtype),
        )
        defaults = (output_attentions, output_hidden_states, return_dict)
        for option, value in zip(CALL_DEFAULTS, defaults, strict=True):
            if value is not None:
                setattr(model, option, value)
        return model

    @suggest_arguments
    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        safe_serialization: bool = True,
        max_shard_size: int | str | None = None,
    ) -> None:
        """Write ``config.json`` and ``model.safetensors``; see ``pretrained.save_pretrained``.

        Args:
            folder: the folder; it need not exist.
            overwrite: whether files from elsewhere in the folder may be replaced.
            safe_serialization: True; heedful writes no pickles.
            max_shard_size: accepted, since both libraries read one file of any size.

        Raises:
            UserError: see ``pretrained.save_pretrained``, or ``safe_serialization`` is false.
        """
        if not safe_serialization:
            raise UserError(
                "safe_serialization=False asks for a pickle, which heedful does not write; leave "
                "it out, and the reference reads model.safetensors, too"
            )
        pretrained.save_pretrained(self, folder, overwrite=overwrite)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state dict of this model, or of the same model of the reference.

        Args:
            state_dict: the weights. The reference has other names for them in most families.
            strict: whether names may be neither missing nor unexpected.
            assign: see torch.

        Raises:
            RuntimeError: see torch.
            UserError: a weight is there twice, under two names.
        """
        return super().load_state_dict(in_own_names(self, state_dict), strict, assign)

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under their names in a file. Shared ones have the first name."""
        named = {id(x): (name, x) for name, x in reversed(self.state_dict(keep_vars=True).items())}
        in_files = self.file_names
        weights = {renamed(name, in_files): x.detach() for name, x in reversed(named.values())}
        return self.body.to_file_layout(weights)

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Convert a file's tensors to weights of this body. Most families need no conversion.

        Args:
            tensors: tensors under their names in the file.
        """
        return tensors

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert weights to the tensors of a file; the inverse of `from_file_layout`.

        Args:
            weights: weights under the names that `from_file_layout` returns.
        """
        return dict(weights)

    def set_file_weights(
        self,
        tensors: Mapping[str, Tensor],
        folder: Path,
        *,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
    ) -> LoadReport:
        """Set every weight from a file, or initialise it where a fresh weight is allowed.

        The model may be on the device "meta": nothing is allocated before all checks pass.
        Afterwards the model is on the CPU. See ``pretrained.set_weights`` for the arguments.

        Raises:
            UserError: a weight is missing or not part of the model, or its shape or dtype is
                wrong.
        """
        return pretrained.set_weights(
            self,
            tensors,
            folder,
            fresh_head=fresh_head,
            ignore_mismatched_sizes=ignore_mismatched_sizes,
        )
