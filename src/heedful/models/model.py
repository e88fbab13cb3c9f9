"""What every model says of itself, whatever its family."""

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models import loading, pretrained
from heedful.models.pretrained import LoadReport
from heedful.models.weights import renamed


class Model(nn.Module, ABC):
    """A module with a configuration that is kept in a folder.

    Attributes:
        config: its sizes and options as they are now. It is replaced, never changed.
        gradient_checkpointing: whether training keeps only each block's input and computes the
            rest again in the backward pass: less memory, about a third more time. False at first.
        loaded: names of the parameters whose values are from a folder.
    """

    config: Any
    gradient_checkpointing: bool = False
    loaded: frozenset[str] = frozenset()

    can_recompute: ClassVar[bool] = False
    """Whether ``gradient_checkpointing`` may be set."""
    packs_for: ClassVar[Literal["first", "last"] | None] = None
    """Of which token a body's state has to be all that is wanted, so that training computes next to
    nothing for padding; None if there is no such token."""
    prefix: ClassVar[str] = ""
    """The attribute that it is, as the body of a model with a head."""
    in_files: Mapping[str, str] = {}
    """Parts of it that have another name in a file, and that name."""

    def __new__(cls, *args: object, **named: object) -> Self:
        """Refuse the name of a folder where a configuration is expected; else `__init__` decides.

        Raises:
            UserError: naming the call that reads a folder.
        """
        if args and isinstance(args[0], str | os.PathLike):
            raise UserError(
                f"{cls.__name__}(...) makes a new model of a configuration; to read one from a "
                f"folder, call {cls.__name__}.from_pretrained({os.fspath(args[0])!r})"
            )
        return super().__new__(cls)

    @property
    def body(self) -> "Model":
        """What gives the hidden states that a head decides from; without a head all of it."""
        return self

    def with_part(self, name: str, part: object) -> Self:
        """Return a model that shares all parts but one."""
        twin = copy.copy(self)
        twin._modules = {**self._modules, name: part}  # type: ignore[dict-item]
        return twin

    def replaced_by(self, exported: Any) -> Any:
        """Return what is scored where a program computes the answers in the place of the model.

        Args:
            exported: called as what answers.
        """
        return exported

    def with_body(self, body: "Model") -> "Model":
        """Return the same model with another body."""
        return body

    @property
    def device(self) -> torch.device:
        """Where its weights are; the first of them, if they are in several places."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights; of the first, if they differ."""
        return next(self.parameters()).dtype

    def num_parameters(self, only_trainable: bool = False) -> int:
        """Count its weights, those that parts of it share once.

        Args:
            only_trainable: whether to leave out what ``requires_grad_(False)`` has frozen.
        """
        return sum(
            parameter.numel()
            for parameter in self.parameters()
            if parameter.requires_grad or not only_trainable
        )

    @property
    def learns_unpadded(self) -> bool:
        """Whether training computes next to nothing for padding, so that lengths may be mixed."""
        return False

    @property
    def max_positions(self) -> int:
        """The most tokens that it takes at once."""
        most: int = self.config.max_position_embeddings
        return most

    @property
    def first_position(self) -> int:
        """Where the first token of a text stands."""
        return 0

    @property
    def usual_positions(self) -> int:
        """How many tokens it takes at once where nobody says."""
        return self.max_positions

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return the masks of attention heads that ``forward`` takes, and their shapes (L, H).

        Heads can be pruned from what they mask; without a mask, none can be.
        """
        return {}

    def why_not_compiled(self) -> str | None:
        """Return why, as a body, it has no compiled form; None if it has one."""
        return f"{type(self).__name__} has no compiled form"

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what stands on the body, and may learn at a rate of its own."""
        return []

    def fresh_head_parameters(self) -> list[nn.Parameter]:
        """Return those of `head_parameters` whose values are not from a folder.

        A pooler goes with them: what it learnt says little to a head that begins.
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

    def renew(self, part: nn.Module) -> None:
        """Draw the weights of a part of it anew."""
        pretrained.initialise(part, self.config.initializer_range)
        drawn = {id(parameter) for parameter in part.parameters()}
        for model in self._models():
            names = {name for name, value in model.named_parameters() if id(value) in drawn}
            model.loaded -= names

    def _models(self) -> "Iterator[Model]":
        """Yield it, and the models in it."""
        return (part for part in self.modules() if isinstance(part, Model))

    @abstractmethod
    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""

    def input_vectors(self) -> nn.Module:
        """Return the part whose output is the vectors of what is read, of shape (B, S, W)."""
        return self.get_input_embeddings()

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings, of any number of words; the width must stay.

        Raises:
            UserError: another width, or a model whose vocabulary cannot change.
        """
        raise UserError(f"{type(self).__name__}: its vocabulary cannot be changed")

    def resize_token_embeddings(self, size: int) -> nn.Embedding:
        """Change how many words the model knows, and return the new word embeddings.

        The vectors of the words that stay are kept; those of new words, which come last, are
        drawn as fresh weights are. Make an optimizer after this, not before.

        Raises:
            UserError: the size leaves out the padding piece, or is no size at all, or the model's
                vocabulary cannot change.
        """
        raise UserError(f"{type(self).__name__}: its vocabulary cannot be changed")

    @property
    def num_blocks(self) -> int:
        """How many blocks `keep_blocks` can choose from, in each of two stacks; 0 where none."""
        return 0

    def keep_blocks(self, numbers: Sequence[int]) -> None:
        """Keep some of the blocks, in the order in which they are named; of two stacks, of both.

        Raises:
            UserError: the model's blocks cannot be chosen from.
        """
        raise UserError(f"{type(self).__name__}: its layers cannot be chosen from")

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Take attention heads out of the body; see ``pruning.prune_heads``.

        Raises:
            UserError: it cannot lose any, or not those.
        """
        raise UserError(f"{type(self).__name__}: its attention heads cannot be pruned")

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Make a model with fresh weights."""
        return cls(config)

    @classmethod
    def changed(cls, config: Any, changes: Mapping[str, Any]) -> Any:
        """Return a configuration with other values of fields."""
        return replace(config, **changes)

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        num_labels: int | None = None,
        id2label: Mapping[int, str] | None = None,
        problem_type: str | None = None,
        dropout: float | None = None,
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
    ) -> Self:
        """Read a model in evaluation mode, with float32 weights; None stays as the folder says.

        A head that the folder has no weights for starts fresh, and a warning of the logger
        ``heedful.models.loading`` names its weights. Weights that this model does not have,
        such as another head's, are named at level INFO.

        Args:
            name: see ``heedful.sources.resolve``.
            num_labels: number of outputs of a classifier.
            id2label: name of each output.
            problem_type: one of ``config.PROBLEM_TYPES``.
            dropout: of the whole model, where nothing below says otherwise.
            hidden_dropout_prob: dropout of the embeddings and of what each half of a block adds.
            attention_probs_dropout_prob: dropout of the attention weights.
            classifier_dropout: dropout before a classifier.
            is_decoder: whether a token may attend to none after it.
            add_cross_attention: whether the blocks can attend to an encoder. Weights for that may
                start fresh, as those of a head.
            position_embedding_type: one of ``config.POSITION_TYPES``; the same.
            chunk_size_feed_forward: how many tokens go through the feed-forward parts at once.
            fresh_head: whether to start the head fresh although the folder has weights for it, as
                other labels need.
            revision: commit, tag or branch of a hub name.
            allow_pickle: whether to read ``pytorch_model.bin`` where there is no safetensors file.

        Raises:
            UserError: there is no such model, its configuration is not supported or has no such
                option, or its weights do not fit it.
        """
        return loading.read_model(
            cls,
            name,
            {
                "num_labels": num_labels,
                "id2label": id2label,
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
        )

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; other files in the folder stay.

        Raises:
            UserError: the folder holds one of the two already and ``overwrite`` is false, or is a
                file.
        """
        pretrained.save_pretrained(self, folder, overwrite=overwrite)

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under the names that they have in a folder."""
        in_files = self.in_files
        weights = {renamed(name, in_files): tensor for name, tensor in self.state_dict().items()}
        return self.body.to_file_layout(weights)

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a file's tensors as the weights of this body: of most families the same.

        Args:
            tensors: under the names of a file.
        """
        return tensors

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights as the tensors of a file.

        Args:
            weights: under names of `from_file_layout`.
        """
        return dict(weights)

    @abstractmethod
    def set_file_weights(
        self, tensors: Mapping[str, Tensor], folder: Path, *, fresh_head: bool = False
    ) -> LoadReport:
        """Set every weight from those of a file, or draw it where that is right.

        The model may be on the device "meta", so that nothing is allocated before all is checked.
        It is on the CPU thereafter.

        Args:
            tensors: the weights of the file, under its names.
            folder: what an error calls their source.
            fresh_head: see ``from_pretrained``.

        Raises:
            UserError: a weight is missing or has no place in the model, or a shape or a type is
                wrong.
        """
