"""A body with a head: hidden states and the predictions made from them.

A public class, such as ``BertForTokenClassification``, names its body, its head and the function of
``forwards.py`` that calls them.

"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from torch import nn

from heedful.models.decoders import CompiledSteps
from heedful.models.heads import DenseSequenceHead, SequenceHead, reads_first, reads_last
from heedful.models.language_heads import LanguageHead, OutputLayer, PartsOfHead
from heedful.models.model import Model
from heedful.models.pretrained import initialise
from heedful.models.replaced_head import ReplacedHead, inner_layer
from heedful.models.stored_config import CALL_DEFAULTS


class ModelWithHead(Model):
    """A body and a head.

    Args:
        body: computes hidden states. Its ``prefix`` is its attribute name.
        head: makes predictions from the hidden states.
        at: attribute name of the head, such as ``classifier`` or ``cls.predictions``.
    """

    supports_checkpointing: ClassVar[bool] = True
    adds_to_generator_embeddings: ClassVar[bool] = False
    """Whether a discriminator adds its own embeddings to its generator's instead of sharing them;
    see ``pair.GeneratorDiscriminatorPair``."""
    head_in_files: ClassVar[Mapping[str, str]] = {}
    """Maps names in the head to their names in a weight file, where the two differ."""
    compiled_steps: CompiledSteps | None = None
    """Compiled form of the decoder, which runs search steps in its place."""

    def __init__(self, body: Model, head: nn.Module, *, at: str) -> None:
        super().__init__()
        self._body_name, self._head_name = body.prefix, at
        self.file_names = {**body.file_names, **self.head_in_files}
        self.add_module(body.prefix, body)
        # Those of the configuration are for calls of this model, which reads the body's output.
        for name in CALL_DEFAULTS:
            setattr(body, name, getattr(type(body), name))
        self._add(at, head)
        self._original_head = (head,)  # in a tuple, so that it is no submodule
        inner = inner_layer(head)
        self._inner_name = None if inner is None else self.file_names.get(f"{at}.{inner}")
        initialise(head, body.config.initializer_range)
        self.tie_head()

    def _add(self, at: str, part: nn.Module) -> None:
        parent, _, name = at.rpartition(".")
        if parent:
            self.add_module(parent, PartsOfHead({name: part}))
        else:
            self.add_module(name, part)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; ``dropout`` is that of the head, as in the reference."""
        if name == "dropout" and hasattr(self.head, "dropout"):
            getattr(self.head, "original", self.head).dropout = value
            return
        if isinstance(value, nn.Module) and name == vars(self).get("_head_name"):
            self._place_inner_layer(replaced=not _is_head(value))
        super().__setattr__(name, value)

    def _place_inner_layer(self, *, replaced: bool) -> None:
        """Give the head's inner layer its name in the reference if the head is replaced."""
        (head,) = self._original_head
        inner, place = inner_layer(head), self._inner_name
        self.file_names = {**self.body.file_names, **self.head_in_files}
        if not replaced:
            if place is not None:
                self._modules.pop(place.split(".")[0], None)
            return
        if inner is not None and place is not None and place.split(".")[0] not in self._modules:
            self._add(place, getattr(head, inner))
        start = f"{self._head_name}."
        self.file_names = {
            ours: theirs for ours, theirs in self.file_names.items() if not ours.startswith(start)
        }

    def __getattr__(self, name: str) -> Any:
        if name == "dropout" and hasattr(self.head, "dropout"):
            return self.head.dropout
        return super().__getattr__(name)

    @property
    def body(self) -> Model:
        """The part that computes the hidden states."""
        return cast(Model, self.get_submodule(self._body_name))

    def with_body(self, body: Model) -> Self:
        """Return this model with another body."""
        return self.with_submodule(self._body_name, body)

    @property
    def head(self) -> Any:
        """The part that makes predictions from the hidden states."""
        head = self.get_submodule(self._head_name)
        if _is_head(head):
            return head
        (original,) = self._original_head
        inner = None if self._inner_name is None else self.get_submodule(self._inner_name)
        return ReplacedHead(head, original, inner, training=self.training)

    @property
    def config(self) -> Any:
        """The body's configuration."""
        return self.body.config

    @property
    def num_labels(self) -> int:
        """Number of outputs of a classifier.

        It may be set once another classifier is in its place. The loss goes by the logits.
        """
        return int(vars(self).get("_num_labels", self.config.num_labels))

    @num_labels.setter
    def num_labels(self, count: int) -> None:
        vars(self)["_num_labels"] = count

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether the body recomputes activations; see ``Model``."""
        return self.body.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.body.gradient_checkpointing = recompute

    @property
    def trains_packed(self) -> bool:
        """Whether training skips nearly all padding; see ``Model``."""
        token = self.body.packing_token
        first = token == "first" and reads_first(self.head)
        return first or (token == "last" and reads_last(self.head))

    @property
    def max_positions(self) -> int:
        """Maximum sequence length in tokens."""
        return self.body.max_positions

    @property
    def first_position(self) -> int:
        """Position of the first token of a sequence."""
        return self.body.first_position

    @property
    def default_length(self) -> int:
        """Default sequence length in tokens."""
        return self.body.default_length

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return the head masks of the body; see ``Model.head_masks``."""
        return self.body.head_masks()

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters on top of the body, which may have their own learning rate."""
        return [*self.body.head_parameters(), *self.head.parameters()]

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""
        return self.body.get_input_embeddings()

    def input_vectors(self) -> nn.Module:
        """Return the module that outputs the body's input vectors."""
        return self.body.input_vectors()

    def get_output_embeddings(self) -> OutputLayer | None:
        """Return the output layer of the language model head; None without such a head.

        Its weight is that of the input embeddings if the two are tied.
        """
        head = language_head(self)
        return None if head is None else head.output_layer(self.get_input_embeddings())

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings and resize a language model head to the new vocabulary.

        The head keeps the weights of remaining tokens. New tokens get a bias of 0 and, if the
        output is not tied to the embeddings, fresh vectors.

        Raises:
            UserError: the width differs.
        """
        self.body.set_input_embeddings(embeddings)
        self._resize_head()
        self.tie_head()

    def _resize_vocabulary(self, size: int) -> nn.Embedding:
        embeddings = self.body.resize_token_embeddings(size)
        self._resize_head()
        self.tie_head()
        return embeddings

    def tie_head(self) -> None:
        """Let a language model head that is called alone use the current word embeddings."""
        if (head := language_head(self)) is not None:
            head.tie(self.get_input_embeddings())

    def _resize_head(self) -> None:
        if (head := language_head(self)) is not None:
            head.resize(self.config.vocab_size, self.config.initializer_range)

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Remove attention heads from the body; see ``pruning.prune_heads``."""
        self.body.prune_heads(heads)


def _is_head(module: nn.Module) -> bool:
    return type(module).__module__.startswith("heedful.") or hasattr(module, "every_token")


def language_head(model: ModelWithHead) -> LanguageHead | None:
    """Return the language model head; None if the model has none."""
    head = getattr(model.head, "predictions", model.head)
    return head if isinstance(head, LanguageHead) else None


def float32_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers that stay in float32 if the rest of the model is in half precision.

    These are the output layers of regression heads. Near 2000 a bfloat16 has steps of 8, too coarse
    for a model that predicts years. Inner layers of such a head may stay in half precision.
    """
    return [
        head.out_proj if isinstance(head, DenseSequenceHead) else head
        for head in model.modules()
        if isinstance(head, SequenceHead | DenseSequenceHead) and head.problem_type == "regression"
    ]
