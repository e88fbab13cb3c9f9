"""Model outputs: small dataclasses that support the access patterns of the reference's outputs.

Shapes: B batch, H heads, S length, T key length (S plus cached tokens), E encoder length, D model
width, C classes or outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor
from torch.utils._pytree import register_pytree_node

from heedful.layers.cache import Cache


class Output:
    """Access by attribute, key, index and slice: ``out.loss``, ``out["loss"]``, ``out[0]``.

    Keys, indices and slices skip None values, as in the reference. Iteration skips them, too, and
    yields keys; unpack values with ``out[:2]`` or ``out.to_tuple()``. ``torch.export`` and
    ``torch.func`` see the values.
    """

    def __init_subclass__(cls) -> None:
        """Tell torch how to take an output apart and put it together."""
        register_pytree_node(
            cls,
            lambda output: (output.values(), output.keys()),
            lambda values, keys: cls(**dict(zip(keys, values, strict=True))),
            serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        )

    def keys(self) -> list[str]:
        """Return the names of the values that are not None, in order."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return [name for name in names if getattr(self, name) is not None]

    def values(self) -> list[Any]:
        """Return the values that are not None, in order."""
        return [getattr(self, name) for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Return the names and values of those that are not None, in order."""
        return list(zip(self.keys(), self.values(), strict=True))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value by name, or ``default`` if the output does not have it."""
        return dict(self.items()).get(key, default)

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the values that are not None, in order."""
        return tuple(self.values())

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self.to_tuple()[key]
        if key not in self.keys():
            raise KeyError(f"{key!r} is not in this output; it has {', '.join(self.keys())}")
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())


@dataclass(frozen=True, kw_only=True)
class BertModelOutput(Output):
    """Output of ``BertModel``."""

    last_hidden_state: Tensor
    """Shape (B, S, D)."""
    pooler_output: Tensor | None = None
    """First token's hidden state after a dense layer and tanh. Shape (B, D)."""
    past_key_values: Cache | None = None
    """KV cache that a later call can continue from, if requested."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Cross-attention weights of each block, if requested and the model has cross-attention. Each
    of shape (B, H, S, E)."""
    kernels: tuple[str, ...] | None = None
    """Kernel of each attention, ``"fused"`` or ``"plain"``, in execution order, if requested."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOutput(Output):
    """Output of models that classify texts or tokens or score choices."""

    loss: Tensor | None = None
    """Mean loss over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Logits of texts or choices, shape (B, C), or of tokens, shape (B, S, C)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class ReconstructionOutput(Output):
    """Output of ``ViTForMaskedImageModeling``, for images of Y rows and X columns."""

    loss: Tensor | None = None
    """Mean absolute error of the masked pixels, if any are masked. Shape ()."""
    reconstruction: Tensor
    """Predicted pixels. Shape (B, channels, Y, X), without edge pixels that no patch covers."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOutput(Output):
    """Output of ``BertForQuestionAnswering``."""

    loss: Tensor | None = None
    """Average of the start and end losses, if there are target positions. Shape ()."""
    start_logits: Tensor
    """Logits of each token as the start of the answer. Shape (B, S)."""
    end_logits: Tensor
    """Logits of each token as the end of the answer. Shape (B, S)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class XLNetModelOutput(Output):
    """Output of ``XLNetModel``; P is the number of predicted tokens, M the memory length."""

    last_hidden_state: Tensor
    """Of all tokens, shape (B, S, D), or of the predicted tokens, if any, shape (B, P, D)."""
    mems: tuple[Tensor, ...] | None = None
    """Memory for the next segment, if requested: the cached inputs of each block. Each of shape
    (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Outputs of the embeddings and of each block, if requested. Each of shape (B, S, D), or with
    predicted tokens alternately (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T), or with predicted
    tokens a pair of shapes (B, H, S, T) and (B, H, P, T)."""
    kernels: tuple[str, ...] | None = None
    """Kernel of each attention, if requested."""


@dataclass(frozen=True, kw_only=True)
class XLNetOutput(Output):
    """Output of XLNet classifiers, choice models and language models."""

    loss: Tensor | None = None
    """Mean loss over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Logits of texts or choices, shape (B, C); of tokens, shape (B, S, C); of predicted tokens, if
    any, shape (B, P, C); or of ``positions``, shape (N, C)."""
    mems: tuple[Tensor, ...] | None = None
    """Memory for the next segment, if requested: the cached inputs of each block. Each of shape
    (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Outputs of the embeddings and of each block, if requested. Each of shape (B, S, D), or with
    predicted tokens alternately (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T), or with predicted
    tokens a pair of shapes (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class XLNetSpanOutput(Output):
    """Output of ``XLNetForQuestionAnsweringSimple``."""

    loss: Tensor | None = None
    """Average of the start and end losses, if there are target positions. Shape ()."""
    start_logits: Tensor
    """Logits of each token as the start of the answer. Shape (B, S)."""
    end_logits: Tensor
    """Logits of each token as the end of the answer. Shape (B, S)."""
    mems: tuple[Tensor, ...] | None = None
    """Memory for the next segment, if requested: the cached inputs of each block. Each of shape
    (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Outputs of the embeddings and of each block, if requested. Each of shape (B, S, D), or with
    predicted tokens alternately (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T), or with predicted
    tokens a pair of shapes (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class XLNetPointerOutput(Output):
    """Output of ``XLNetForQuestionAnswering``: a loss or the best spans.

    N is the number of starts, E the number of ends per start. The fields ``log_probs`` hold
    probabilities; the names are the reference's.
    """

    loss: Tensor | None = None
    """With target positions, the average of the start and end losses plus half the answerability
    loss. Shape ()."""
    start_top_log_probs: Tensor | None = None
    """Probabilities of the best starts. Shape (B, N)."""
    start_top_index: Tensor | None = None
    """Positions of the best starts. Shape (B, N), int64."""
    end_top_log_probs: Tensor | None = None
    """Probabilities of the best ends for each start: each start's best end first. Shape
    (B, E * N)."""
    end_top_index: Tensor | None = None
    """Positions of the best ends. Shape (B, E * N), int64."""
    cls_logits: Tensor | None = None
    """Above 0 if the question has no answer. Shape (B,)."""
    mems: tuple[Tensor, ...] | None = None
    """Memory for the next segment, if requested: the cached inputs of each block. Each of shape
    (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Outputs of the embeddings and of each block, if requested. Each of shape (B, S, D), or with
    predicted tokens alternately (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T), or with predicted
    tokens a pair of shapes (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelOutput(Output):
    """Output of ``BertForMaskedLM`` and ``BertLMHeadModel``.

    V is the vocabulary size, N the number of scored positions.
    """

    loss: Tensor | None = None
    """Mean loss over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Logits at all positions, shape (B, S, V), or, if ``positions`` is not None, at those
    positions, shape (N, V)."""
    past_key_values: Cache | None = None
    """KV cache that a later call of a decoder can continue from, if requested."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Cross-attention weights of each block, if requested and the model has cross-attention. Each
    of shape (B, H, S, E)."""
    positions: Tensor | None = None
    """Positions of ``logits`` in the flattened batch of B * S tokens. Shape (N,)."""


@dataclass(frozen=True, kw_only=True)
class PreTrainingOutput(Output):
    """Output of ``BertForPreTraining``; V and N as in ``LanguageModelOutput``."""

    loss: Tensor | None = None
    """Sum of the mean losses of the two kinds of labels. Shape ()."""
    prediction_logits: Tensor
    """Logits at all positions, shape (B, S, V), or, if ``positions`` is not None, at those
    positions, shape (N, V)."""
    seq_relationship_logits: Tensor
    """Logits of whether the second text follows the first (0) or not (1). Shape (B, 2)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, S)."""
    positions: Tensor | None = None
    """Positions of ``prediction_logits`` in the flattened batch of B * S tokens. Shape (N,),
    int64."""

    @property
    def pair_logits(self) -> Tensor:
        """Logits of whether the text pair is genuine (0) or not (1). Shape (B, 2)."""
        return self.seq_relationship_logits


@dataclass(frozen=True, kw_only=True)
class SentenceOrderOutput(Output):
    """Output of ``AlbertForPreTraining``; V and N as in ``LanguageModelOutput``."""

    loss: Tensor | None = None
    """Sum of the mean losses of the two kinds of labels. Shape ()."""
    prediction_logits: Tensor
    """Logits at all positions, shape (B, S, V), or, if ``positions`` is not None, at those
    positions, shape (N, V)."""
    sop_logits: Tensor
    """Logits of whether the two texts are in order (0) or swapped (1). Shape (B, 2)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each layer, if requested. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each layer, if requested. Each of shape (B, H, S, S)."""
    positions: Tensor | None = None
    """Positions of ``prediction_logits`` in the flattened batch of B * S tokens. Shape (N,),
    int64."""

    @property
    def pair_logits(self) -> Tensor:
        """Logits of whether the text pair is genuine (0) or not (1). Shape (B, 2)."""
        return self.sop_logits


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderOutput(Output):
    """Output of ``BertEncoderDecoder``; S is the decoder length, V and N as above."""

    loss: Tensor | None = None
    """Mean or sum of the loss over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Logits at all positions, shape (B, S, V), or, if ``positions`` is not None, at those
    positions, shape (N, V)."""
    past_key_values: Cache | None = None
    """KV cache that a later call of the decoder can continue from, if requested."""
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B, S, D)."""
    decoder_attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Cross-attention weights of each block, if requested. Each of shape (B, H, S, E)."""
    encoder_last_hidden_state: Tensor
    """Shape (B, E, D), where D is the encoder's width."""
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    """The encoder's embeddings and the output of each of its blocks, if requested."""
    encoder_attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each encoder block, if requested. Each of shape (B, H, E, E)."""
    positions: Tensor | None = None
    """Positions of ``logits`` in the flattened batch of B * S tokens. Shape (N,)."""


@dataclass(frozen=True, kw_only=True)
class TranslationOutput(Output):
    """Output of ``Transformer`` and ``RnnSearch``.

    S is the target length, V the size of the target vocabulary, N the number of labels.
    """

    loss: Tensor | None = None
    """Mean or sum of the loss over the labels, if there are labels; with label smoothing only in
    training. Shape ()."""
    logits: Tensor
    """Logits at all positions, shape (B, S, V), or, with labels, at labelled positions, shape
    (N, V)."""
    positions: Tensor | None = None
    """With labels, the positions of ``logits`` in the flattened batch of B * S tokens. Shape (N,),
    int64."""
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    """For a ``Transformer``, if requested, the decoder's embeddings and the output of each of its
    blocks; the last is normalised if the model is pre-norm. Each of shape (B, S, D)."""
    encoder_last_hidden_state: Tensor | None = None
    """Shape (B, E, D). None if a ``Transformer`` packs sequences: in training with labels, unless
    hidden states or attention weights are requested."""
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    """Like ``decoder_hidden_states``, for the encoder. Each of shape (B, E, D)."""
    encoder_attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each encoder block, if requested and the encoder has attention. Each of
    shape (B, H, E, E)."""
    decoder_attentions: tuple[Tensor, ...] | None = None
    """Self-attention weights of each decoder block, if requested. Each of shape (B, H, S, S)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Cross-attention weights of each decoder block, if requested. Each of shape (B, H, S, E), with
    H 1 for additive attention."""
