"""Methods of models for code that was written for the reference.

Shapes: B batch, H heads, L blocks, S length.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from heedful.arguments import suggest_arguments
from heedful.errors import UserError
from heedful.layers import masks
from heedful.models import pretrained
from heedful.models.generated_ids import GenerationConfig, Generator

if TYPE_CHECKING:
    from heedful.models.model import Model


class ReferenceMethods(nn.Module, ABC):
    """What the reference's models have besides their calls and files."""

    config: Any
    gradient_checkpointing: bool

    @property
    @abstractmethod
    def body(self) -> "Model":
        """The part that computes the hidden states."""

    @property
    def base_model(self) -> "Model":
        """The `body`, by its name in the reference."""
        return self.body

    @property
    def base_model_prefix(self) -> str:
        """Attribute name of the body in a model with a head; the reference's name."""
        return self.body.prefix

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: Mapping[str, bool] | None = None
    ) -> None:
        """Set ``gradient_checkpointing``.

        Args:
            gradient_checkpointing_kwargs: ``{"use_reentrant": ...}``, which makes no difference to
                values.

        Raises:
            UserError: there is another option in it.
        """
        for name in gradient_checkpointing_kwargs or {}:
            if name != "use_reentrant":
                raise UserError(
                    f"gradient_checkpointing_kwargs has {name!r}; only 'use_reentrant' is supported"
                )
        self.gradient_checkpointing = True

    @property
    def is_gradient_checkpointing(self) -> bool:
        """The attribute ``gradient_checkpointing``, by its name in the reference."""
        return self.gradient_checkpointing

    def gradient_checkpointing_disable(self) -> None:
        """Unset ``gradient_checkpointing``."""
        self.gradient_checkpointing = False

    @property
    def device(self) -> torch.device:
        """Device of the weights; that of the first weight if they are on several devices."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights; that of the first weight if they differ."""
        return next(self.parameters()).dtype

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Return the number of weights; shared weights count once.

        Args:
            only_trainable: whether to skip parameters frozen by ``requires_grad_(False)``.
            exclude_embeddings: whether to skip embedding tables, and weights shared with them.
        """
        tables = {
            id(parameter)
            for part in self.modules()
            if isinstance(part, nn.Embedding) and exclude_embeddings
            for parameter in part.parameters()
        }
        return sum(
            parameter.numel()
            for parameter in self.parameters()
            if (parameter.requires_grad or not only_trainable) and id(parameter) not in tables
        )

    @abstractmethod
    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""

    @abstractmethod
    def _resize_vocabulary(self, size: int) -> nn.Embedding:
        """Change the vocabulary size of all parts; see `resize_token_embeddings`."""

    @suggest_arguments
    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = False,
    ) -> nn.Embedding:
        """Change the vocabulary size and return the new word embeddings.

        Remaining tokens keep their vectors. New tokens come last; their vectors are initialised
        like fresh weights, and in a language model their bias is 0. Create the optimizer after this
        call, not before.

        Args:
            new_num_tokens: the size; by default the present one.
            pad_to_multiple_of: the size is the next multiple of this number.
            mean_resizing: False; heedful does not draw new vectors around the mean of the others.

        Raises:
            UserError: the size excludes the padding token or is not a valid size, or the model's
                vocabulary cannot change, or ``mean_resizing`` is true.
        """
        if mean_resizing:
            raise UserError(
                "mean_resizing is not supported: new vectors are initialised like fresh weights; "
                "set those of get_input_embeddings().weight to have others"
            )
        size = new_num_tokens
        if size is None:
            size = self.get_input_embeddings().num_embeddings
        if pad_to_multiple_of is not None:
            if not isinstance(pad_to_multiple_of, int) or pad_to_multiple_of < 1:
                wrong = f"pad_to_multiple_of is {pad_to_multiple_of!r}"
                raise UserError(f"{wrong}; it must be an integer of at least 1")
            size = -(-size // pad_to_multiple_of) * pad_to_multiple_of
        elif new_num_tokens is None:
            return self.get_input_embeddings()
        return self._resize_vocabulary(size)

    def tie_weights(self) -> None:
        """Do nothing: weights that are tied are one tensor from the start."""

    def get_output_embeddings(self) -> nn.Linear | None:
        """Return the output layer of a language model; None for any other model."""
        return None

    @property
    def generation_config(self) -> GenerationConfig:
        """The defaults of ``generate``, which can be set: ``generation_config.pad_token_id = 0``.

        Raises:
            AttributeError: the model does not generate.
        """
        if not hasattr(self, "generate"):
            raise AttributeError(f"{type(self).__name__} does not generate")
        return GenerationConfig(cast(Generator, self))

    def init_weights(self) -> None:
        """Initialise the modules that were put into the model and not yet initialised.

        As in the reference, modules that a constructor has initialised or a folder has filled keep
        their weights.
        """
        pretrained.initialise_new(self, self.config.initializer_range)

    def post_init(self) -> None:
        """Call `init_weights`, as constructors in the reference do at their end."""
        self.init_weights()

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise the weights that a module has itself: ``model.apply(model._init_weights)``."""
        pretrained.initialise_alone(module, self.config.initializer_range)

    def get_extended_attention_mask(
        self,
        attention_mask: Tensor,
        input_shape: tuple[int, ...] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return what an attention mask adds to the scores, for layers that are called alone.

        Args:
            attention_mask: 1 where a token may be attended to. Shape (B, S), or (B, S, S) with one
                row per query. A decoder adds the causal mask, but not to the latter shape.
            input_shape: (B, S); by default that of the mask.
            device: not needed: that of the mask.
            dtype: dtype of the scores; by default that of the model.

        Returns:
            0, or the lowest number where a token may not be attended to. Shape (B, 1, 1, S) or
            (B, 1, S, S).

        Raises:
            UserError: the mask has another shape.
        """
        if attention_mask.ndim not in (2, 3):
            shape = tuple(attention_mask.shape)
            raise UserError(f"attention_mask has shape {shape}; it must have 2 or 3 dimensions")
        per_query = attention_mask.ndim == 3
        mask = attention_mask[:, None] if per_query else attention_mask[:, None, None]
        if not per_query and self.config.is_decoder:
            keys = attention_mask.shape[1]
            queries = keys if input_shape is None else input_shape[1]
            causal = masks.for_self_attention(
                None,
                batch=len(attention_mask),
                queries=queries,
                keys=keys,
                causal=True,
                device=attention_mask.device,
            )
            mask = mask if causal is None else mask * causal
        return masks.as_scores(mask, self.dtype if dtype is None else dtype)

    def invert_attention_mask(self, encoder_attention_mask: Tensor) -> Tensor:
        """Return what a mask adds to the scores of cross-attention.

        Args:
            encoder_attention_mask: 1 where a token of the encoder may be attended to. Shape (B, E)
                or (B, S, E).
        """
        mask = encoder_attention_mask
        mask = mask[:, None] if mask.ndim == 3 else mask[:, None, None]
        return masks.as_scores(mask, self.dtype)

    def get_head_mask(
        self, head_mask: Tensor | None, num_hidden_layers: int
    ) -> Tensor | list[None]:
        """Return the mask of each block's heads, for blocks that are called alone.

        Args:
            head_mask: factor on each head's output. Shape (H,) or (L, H); None for no mask.
            num_hidden_layers: L.

        Returns:
            Shape (L, 1, H, 1, 1), or a None for each block.
        """
        if head_mask is None:
            return [None] * num_hidden_layers
        rows = head_mask.expand(num_hidden_layers, -1)
        return rows[:, None, :, None, None].to(self.dtype)
