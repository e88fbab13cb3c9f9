"""A body with a head: hidden states, and what is decided from them.

A public name, such as ``BertForTokenClassification``, is a class that says which body and which
head it has, and which function of ``forwards.py`` calls them.

Shapes: D model width, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models.decoders import Steps
from heedful.models.heads import (
    DenseSequenceHead,
    LanguageHead,
    SequenceHead,
    reads_first,
    reads_last,
)
from heedful.models.model import Model
from heedful.models.pretrained import LoadReport, initialise, set_weights


class WithHead(Model):
    """A body and a head.

    Args:
        body: gives hidden states. It is the attribute that its ``prefix`` names.
        head: decides from them.
        at: the attribute that the head is, such as ``classifier`` or ``cls.predictions``.
    """

    can_recompute: ClassVar[bool] = True
    adds_embeddings: ClassVar[bool] = False
    """Whether, as a discriminator, it adds to the embeddings of its generator, rather than having
    them in common; see ``pair.Pair``."""
    head_in_files: ClassVar[Mapping[str, str]] = {}
    """Parts of the head that have another name in a file, and that name."""
    compiled_steps: Steps | None = None
    """What else takes the steps of a search, of a decoder."""

    def __init__(self, body: Model, head: nn.Module, *, at: str) -> None:
        super().__init__()
        self._body_name, self._head_name = body.prefix, at
        self.in_files = {**body.in_files, **self.head_in_files}
        self.add_module(body.prefix, body)
        parent, _, name = at.rpartition(".")
        if parent:
            self.add_module(parent, nn.ModuleDict({name: head}))
        else:
            self.add_module(name, head)
        initialise(head, body.config.initializer_range)

    @property
    def body(self) -> Model:
        """What gives the hidden states."""
        return cast(Model, self.get_submodule(self._body_name))

    def with_body(self, body: Model) -> Self:
        """Return the same model with another body."""
        return self.with_part(self._body_name, body)

    @property
    def head(self) -> Any:
        """What decides from them."""
        return self.get_submodule(self._head_name)

    @property
    def config(self) -> Any:
        """The body's configuration."""
        return self.body.config

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether the body recomputes; see ``Model``."""
        return self.body.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.body.gradient_checkpointing = recompute

    @property
    def learns_unpadded(self) -> bool:
        """Whether training computes next to nothing for padding; see ``Model``."""
        token = self.body.packs_for
        first = token == "first" and reads_first(self.head)
        return first or (token == "last" and reads_last(self.head))

    @property
    def max_positions(self) -> int:
        """The most tokens that it takes at once."""
        return self.body.max_positions

    @property
    def first_position(self) -> int:
        """Where the first token of a text stands."""
        return self.body.first_position

    @property
    def usual_positions(self) -> int:
        """How many tokens it takes at once where nobody says."""
        return self.body.usual_positions

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return those of the body."""
        return self.body.head_masks()

    def set_file_weights(
        self, tensors: Mapping[str, Tensor], folder: Path, *, fresh_head: bool = False
    ) -> LoadReport:
        """Set every weight; see ``Model.set_file_weights``."""
        return set_weights(self, tensors, folder, fresh_head=fresh_head)

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what stands on the body, and may learn at a rate of its own."""
        return [*self.body.head_parameters(), *self.head.parameters()]

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""
        return self.body.get_input_embeddings()

    def input_vectors(self) -> nn.Module:
        """Return that of the body."""
        return self.body.input_vectors()

    def get_output_embeddings(self) -> Tensor:
        """Return the vectors that hidden states are compared with, the input's if tied.

        Returns:
            Shape (V, D).

        Raises:
            UserError: the model scores no pieces of the vocabulary.
        """
        head = language_head(self)
        if head is None:
            raise UserError(f"{type(self).__name__} scores no pieces of the vocabulary")
        return head.vectors(self.get_input_embeddings())

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings.

        A head that scores pieces takes as many: what both have is kept, other biases start at 0,
        and where the output is not tied to the embeddings, its other vectors start afresh.

        Raises:
            UserError: another width.
        """
        self.body.set_input_embeddings(embeddings)
        self._resize_head()

    def resize_token_embeddings(self, size: int) -> nn.Embedding:
        """Change how many words the model knows; see ``set_input_embeddings``."""
        embeddings = self.body.resize_token_embeddings(size)
        self._resize_head()
        return embeddings

    def _resize_head(self) -> None:
        if (head := language_head(self)) is not None:
            head.resize(self.config.vocab_size, self.config.initializer_range)

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Take attention heads out of the body; see ``pruning.prune_heads``."""
        self.body.prune_heads(heads)


def language_head(model: WithHead) -> LanguageHead | None:
    """Return what scores pieces of the vocabulary, if the model does."""
    head = getattr(model.head, "predictions", model.head)
    return head if isinstance(head, LanguageHead) else None


def wide_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model that stay in float32 where all others are in a narrow format.

    These are the ones that give numbers. Near 2000 a bfloat16 has steps of 8, and so would have
    every answer of a model that learnt years. What is inside of such a layer need not be as wide.
    """
    return [
        head.out_proj if isinstance(head, DenseSequenceHead) else head
        for head in model.modules()
        if isinstance(head, SequenceHead | DenseSequenceHead) and head.problem_type == "regression"
    ]
