"""What a model returns: small dataclasses that also read like the reference's outputs.

Shapes: B batch, H heads, S length, T key length (S and what is cached), E encoder's length, D model
width, C classes or outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from heedful.layers.cache import Cache


class Output:
    """Access by attribute, key, index and slice: ``out.loss``, ``out["loss"]``, ``out[0]``.

    Keys, indices and slices pass over what is None, as in the reference. So does iteration, which
    gives keys; unpack values with ``out[:2]`` or ``out.to_tuple()``.
    """

    def keys(self) -> list[str]:
        """Return the names of the values that are not None, in order."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return [name for name in names if getattr(self, name) is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the values that are not None, in order."""
        return tuple(getattr(self, name) for name in self.keys())

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
    """What ``BertModel`` returns."""

    last_hidden_state: Tensor
    """Shape (B, S, D)."""
    pooler_output: Tensor | None = None
    """The first token after a dense layer and tanh. Shape (B, D)."""
    past_key_values: Cache | None = None
    """What a later call can go on from, if asked for."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Those of each block's cross-attention, if it has one. Each of shape (B, H, S, E)."""
    kernels: tuple[str, ...] | None = None
    """Which kernel each attention ran on, in the order in which they ran, if asked for: ``"fused"``
    or ``"plain"``."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOutput(Output):
    """What models return that decide about texts, tokens or choices."""

    loss: Tensor | None = None
    """The mean over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Of texts or choices, shape (B, C); of tokens, shape (B, S, C)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class PictureOutput(Output):
    """What ``ViTForMaskedImageModeling`` returns, for pictures of Y rows and X columns."""

    loss: Tensor | None = None
    """The mean distance of the hidden pixels, if some are hidden. Shape ()."""
    reconstruction: Tensor
    """Pixels. Shape (B, channels, Y, X), less what is left at an edge by patches."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOutput(Output):
    """What ``BertForQuestionAnswering`` returns."""

    loss: Tensor | None = None
    """The mean of the two ends' losses, if there are positions. Shape ()."""
    start_logits: Tensor
    """How well each token starts the answer. Shape (B, S)."""
    end_logits: Tensor
    """How well each token ends it. Shape (B, S)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, S)."""


@dataclass(frozen=True, kw_only=True)
class XLNetModelOutput(Output):
    """What ``XLNetModel`` returns; P is the number of predicted tokens, M the memory's length."""

    last_hidden_state: Tensor
    """Of the tokens, shape (B, S, D), or where some are predicted of these, shape (B, P, D)."""
    mems: tuple[Tensor, ...] | None = None
    """What a call for the next segment can go on from, if asked for: what each block has read. Each
    of shape (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """What comes out of the embeddings and of each block, if asked for. Each of shape (B, S, D), or
    with predicted tokens in turn (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T), or with
    predicted tokens two, (B, H, S, T) and (B, H, P, T)."""
    kernels: tuple[str, ...] | None = None
    """Which kernel each attention ran on, if asked for."""


@dataclass(frozen=True, kw_only=True)
class XLNetDecisionOutput(Output):
    """What XLNets return that decide about texts, tokens or choices, or score pieces."""

    loss: Tensor | None = None
    """The mean over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Of texts or choices, shape (B, C); of tokens, shape (B, S, C), or where some are predicted of
    these, shape (B, P, C), or with ``positions`` (N, C)."""
    mems: tuple[Tensor, ...] | None = None
    """What a call for the next segment can go on from, if asked for: what each block has read. Each
    of shape (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """What comes out of the embeddings and of each block, if asked for. Each of shape (B, S, D), or
    with predicted tokens in turn (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T), or with
    predicted tokens two, (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class XLNetSpanOutput(Output):
    """What ``XLNetForQuestionAnsweringSimple`` returns."""

    loss: Tensor | None = None
    """The mean of the two ends' losses, if there are positions. Shape ()."""
    start_logits: Tensor
    """How well each token starts the answer. Shape (B, S)."""
    end_logits: Tensor
    """How well each token ends it. Shape (B, S)."""
    mems: tuple[Tensor, ...] | None = None
    """What a call for the next segment can go on from, if asked for: what each block has read. Each
    of shape (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """What comes out of the embeddings and of each block, if asked for. Each of shape (B, S, D), or
    with predicted tokens in turn (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T), or with
    predicted tokens two, (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class XLNetPointerOutput(Output):
    """What ``XLNetForQuestionAnswering`` returns: a loss, or its best spans.

    N is the number of starts, E that of ends for each. What is called ``log_probs``, as in the
    reference, are probabilities.
    """

    loss: Tensor | None = None
    """If there are positions: the mean of the two ends' losses, and half of that of answerability.
    Shape ()."""
    start_top_log_probs: Tensor | None = None
    """Of the best starts. Shape (B, N)."""
    start_top_index: Tensor | None = None
    """Where they stand. Shape (B, N), int64."""
    end_top_log_probs: Tensor | None = None
    """Of the best ends after each start: the best of each start first. Shape (B, E * N)."""
    end_top_index: Tensor | None = None
    """Where they stand. Shape (B, E * N), int64."""
    cls_logits: Tensor | None = None
    """Above 0 where the question has no answer. Shape (B,)."""
    mems: tuple[Tensor, ...] | None = None
    """What a call for the next segment can go on from, if asked for: what each block has read. Each
    of shape (M, B, D), as in the reference."""
    hidden_states: tuple[Tensor, ...] | None = None
    """What comes out of the embeddings and of each block, if asked for. Each of shape (B, S, D), or
    with predicted tokens in turn (B, S, D) and (B, P, D)."""
    attentions: tuple[Tensor | tuple[Tensor, Tensor], ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T), or with
    predicted tokens two, (B, H, S, T) and (B, H, P, T)."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelOutput(Output):
    """What ``BertForMaskedLM`` and ``BertLMHeadModel`` return.

    V is the size of the vocabulary, N the number of positions that are scored.
    """

    loss: Tensor | None = None
    """The mean over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Of every token, shape (B, S, V), or where ``positions`` is not None of those positions
    alone, shape (N, V)."""
    past_key_values: Cache | None = None
    """What a later call of a decoder can go on from, if asked for."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Those of each block's cross-attention, if it has one. Each of shape (B, H, S, E)."""
    positions: Tensor | None = None
    """Where ``logits`` stand in the batch laid out as one row of B * S tokens. Shape (N,)."""


@dataclass(frozen=True, kw_only=True)
class PreTrainingOutput(Output):
    """What ``BertForPreTraining`` returns; V and N as in ``LanguageModelOutput``."""

    loss: Tensor | None = None
    """The sum of the means over the labels of each kind. Shape ()."""
    prediction_logits: Tensor
    """Of every token, shape (B, S, V), or where ``positions`` is not None of those positions
    alone, shape (N, V)."""
    seq_relationship_logits: Tensor
    """Whether the second text follows the first (0) or not (1). Shape (B, 2)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, S)."""
    positions: Tensor | None = None
    """Where ``prediction_logits`` stand in the batch laid out as one row of B * S tokens. Shape
    (N,), int64."""

    @property
    def pair_logits(self) -> Tensor:
        """Whether the two texts belong as they stand (0) or not (1). Shape (B, 2)."""
        return self.seq_relationship_logits


@dataclass(frozen=True, kw_only=True)
class SentenceOrderOutput(Output):
    """What ``AlbertForPreTraining`` returns; V and N as in ``LanguageModelOutput``."""

    loss: Tensor | None = None
    """The sum of the means over the labels of each kind. Shape ()."""
    prediction_logits: Tensor
    """Of every token, shape (B, S, V), or where ``positions`` is not None of those positions
    alone, shape (N, V)."""
    sop_logits: Tensor
    """Whether the two texts stand in order (0) or are swapped (1). Shape (B, 2)."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each layer, if asked for. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each layer, if asked for. Each of shape (B, H, S, S)."""
    positions: Tensor | None = None
    """Where ``prediction_logits`` stand in the batch laid out as one row of B * S tokens. Shape
    (N,), int64."""

    @property
    def pair_logits(self) -> Tensor:
        """Whether the two texts belong as they stand (0) or not (1). Shape (B, 2)."""
        return self.sop_logits


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderOutput(Output):
    """What ``BertEncoderDecoder`` returns; S is the decoder's length, V and N as above."""

    loss: Tensor | None = None
    """The mean or the sum over the labels, if there are labels. Shape ()."""
    logits: Tensor
    """Of every token, shape (B, S, V), or where ``positions`` is not None of those positions
    alone, shape (N, V)."""
    past_key_values: Cache | None = None
    """What a later call of the decoder can go on from, if asked for."""
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B, S, D)."""
    decoder_attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Those of each block's cross-attention. Each of shape (B, H, S, E)."""
    encoder_last_hidden_state: Tensor
    """Shape (B, E, D) with the encoder's width."""
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    """The encoder's embeddings and the output of each of its blocks, if asked for."""
    encoder_attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each of its blocks, if asked for. Each of shape (B, H, E, E)."""
    positions: Tensor | None = None
    """Where ``logits`` stand in the batch laid out as one row of B * S tokens. Shape (N,)."""


@dataclass(frozen=True, kw_only=True)
class TranslationOutput(Output):
    """What ``Transformer`` and ``RnnSearch`` return.

    S is the target's length, V the size of its vocabulary, N the number of labels.
    """

    loss: Tensor | None = None
    """The mean or the sum over the labels, if there are labels; smoothed in training alone. Shape
    ()."""
    logits: Tensor
    """Of every token, shape (B, S, V), or with labels of those that have one, shape (N, V)."""
    positions: Tensor | None = None
    """With labels, where ``logits`` stand in the batch laid out as one row of B * S tokens. Shape
    (N,), int64."""
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    """Of a ``Transformer``, if asked for: the decoder's embeddings and the output of each of its
    blocks, of a pre-norm one the last normalised. Each of shape (B, S, D)."""
    encoder_last_hidden_state: Tensor | None = None
    """Shape (B, E, D). None where a ``Transformer`` leaves padding out: in training from labels,
    unless hidden states or attention weights are asked for."""
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    """The same of the encoder. Each of shape (B, E, D)."""
    encoder_attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each of the encoder's blocks, if asked for and if it has any. Each
    of shape (B, H, E, E)."""
    decoder_attentions: tuple[Tensor, ...] | None = None
    """Those of each of the decoder's blocks to itself. Each of shape (B, H, S, S)."""
    cross_attentions: tuple[Tensor, ...] | None = None
    """Those of each of them to the encoder's output. Each of shape (B, H, S, E), with H 1 for
    additive attention."""
