"""The ``forward`` functions of models with a head, one for each kind of head.

The body's ``forward`` documents the arguments that it shares. Training and answering give language
models ``positions``, since logits of the whole vocabulary at every token take time and memory.

Shapes: B batch, S length, D model width, C classes, outputs or choices, V vocabulary, N scored
positions.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful import losses
from heedful.device_transfer import reshape_with_host_copy
from heedful.errors import UserError
from heedful.layers import masks
from heedful.layers.cache import Cache
from heedful.models import heads
from heedful.models.labels import class_loss, in_shape, labelled_positions
from heedful.models.outputs import (
    BertModelOutput,
    ClassifierOutput,
    LanguageModelOutput,
    QuestionAnsweringOutput,
)
from heedful.models.with_head import ModelWithHead, language_head


def classify(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    task_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> ClassifierOutput:
    """Classify texts, logits of shape (B, C), or tokens, shape (B, S, C).

    ``labels`` of texts are one class per text, shape (B,); numbers, shape (B,) or (B, C); or 0 or 1
    for each output, shape (B, C). For next sentence prediction, 0 means that the second text
    follows the first, 1 that it does not. Labels of tokens are one class per token, shape (B, S).
    -100 means no label.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    encoded: BertModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        task_type_ids=task_type_ids,
        position_ids=position_ids,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
        # Requested hidden states and attention weights must cover all tokens.
        only_first=heads.reads_first(self.head) and not (output_attentions or output_hidden_states),
    )
    if self.head.every_token:
        hidden = encoded.last_hidden_state  # (B, S, D)
    elif encoded.pooler_output is not None and not isinstance(self.head, heads.DenseSequenceHead):
        hidden = encoded.pooler_output  # (B, D)
    else:
        states = encoded.last_hidden_state
        mask = _token_mask(self, attention_mask, input_ids)
        hidden = heads.summary(self.head, states, mask)  # (B, D)
    logits = self.head(hidden)
    return ClassifierOutput(
        loss=None if labels is None else mean(self.head.loss(logits, labels)),
        logits=logits,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def _token_mask(model: ModelWithHead, mask: Tensor | None, ids: Tensor | None) -> Tensor | None:
    """Return the mask of tokens, or without one what ``SummaryHead.padding_by_id`` says."""
    if mask is not None and ids is not None:
        mask = masks.by_sequence(mask, ids.shape[0])
        # Of a mask with one row per query, tokens are what attends to itself.
        return mask if mask is None or mask.ndim == 2 else mask.diagonal(dim1=-2, dim2=-1)
    if ids is None or not getattr(model.head, "padding_by_id", False):
        return mask
    padding: int | None = model.config.pad_token_id
    return None if padding is None else ids.ne(padding)


def choose(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    task_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> ClassifierOutput:
    """Score the C choices of each item: logits of shape (B, C).

    Arguments of shape (B, ...) in the body's ``forward`` have shape (B, C, ...) here. ``labels``
    are the indices of the correct choices. Shape (B,).

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    shape = check_choices(input_ids, inputs_embeds)
    output = classify(
        self,
        flat_choices(input_ids),
        flat_choices(attention_mask),
        flat_choices(token_type_ids),
        task_type_ids=flat_choices(task_type_ids),
        position_ids=flat_choices(position_ids),
        inputs_embeds=flat_choices(inputs_embeds),
        head_mask=head_mask,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    logits = output.logits.view(shape[:2])  # (B, C)
    loss = None if labels is None else mean(class_loss(logits, labels))
    return replace(output, logits=logits, loss=loss)


def find_span(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    task_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    start_positions: Tensor | None = None,
    end_positions: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> QuestionAnsweringOutput:
    """Score each token as the start and the end of the answer: two logits of shape (B, S).

    ``start_positions`` and ``end_positions`` are the first and last token of the answer, shape
    (B,). As in the reference, a position from S on is ignored and a negative one becomes 0. The
    loss is the average of the mean start loss and the mean end loss.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    encoded: BertModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        task_type_ids=task_type_ids,
        position_ids=position_ids,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    logits = self.head(encoded.last_hidden_state)  # (B, S, 2)
    return span_output(self, encoded, logits, start_positions, end_positions)


def span_output(
    self: ModelWithHead,
    encoded: BertModelOutput,
    logits: Tensor,
    start_positions: Tensor | None,
    end_positions: Tensor | None,
) -> QuestionAnsweringOutput:
    """Return the output of ``find_span`` for logits of shape (B, S, 2)."""
    start, end = logits.unbind(-1)  # each (B, S)
    span = answer_span(start_positions, end_positions)
    return QuestionAnsweringOutput(
        loss=None if span is None else span_loss(self, start, end, span),
        start_logits=start,
        end_logits=end,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def answer_span(start: Tensor | None, end: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Return the start and end positions of the answers; None if neither is given.

    Raises:
        UserError: only one of them is given.
    """
    if (start is None) != (end is None):
        raise UserError("give both start_positions and end_positions, or neither")
    return None if start is None or end is None else (start, end)


def span_loss(
    self: ModelWithHead, start: Tensor, end: Tensor, span: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the mean of the start and end losses, for logits of shape (B, S) each."""
    loss: Tensor = (self.head.loss(start, span[0]) + self.head.loss(end, span[1])) / 2
    return loss


def masked_lm(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    task_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    encoder_hidden_states: Tensor | None = None,
    encoder_attention_mask: Tensor | None = None,
    labels: Tensor | None = None,
    positions: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> LanguageModelOutput:
    """Predict the token at every position, logits of shape (B, S, V), or at N, shape (N, V).

    ``labels`` are the target token ids, or -100 for a position that is not scored. Shape (B, S).
    ``positions`` selects the positions to score if there are no labels, as indices into the
    flattened batch of B * S tokens. Shape (N,), int64.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    encoded: BertModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        task_type_ids=task_type_ids,
        position_ids=position_ids,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        encoder_hidden_states=encoder_hidden_states,
        encoder_attention_mask=encoder_attention_mask,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    return language_logits(self, encoded, labels, positions)


def causal_lm(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    task_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    encoder_hidden_states: Tensor | None = None,
    encoder_attention_mask: Tensor | None = None,
    past_key_values: Cache | Sequence[Sequence[Tensor]] | None = None,
    use_cache: bool | None = None,
    labels: Tensor | None = None,
    positions: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> LanguageModelOutput:
    """Predict the next token at every position, logits of shape (B, S, V), or at N, shape (N, V).

    ``labels`` are the input's own token ids, or -100 for a token that is not scored. Shape (B, S).
    Each label is scored at the position before it, so the first label is ignored. ``positions``
    selects the positions to score if there are no labels, as indices into the flattened batch of
    B * S tokens. Shape (N,), int64. ``use_cache`` says whether to return ``past_key_values``; see
    ``keeps_cache`` for None.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    encoded: BertModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        task_type_ids=task_type_ids,
        position_ids=position_ids,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        encoder_hidden_states=encoder_hidden_states,
        encoder_attention_mask=encoder_attention_mask,
        past_key_values=past_key_values,
        use_cache=keeps_cache(self, use_cache, labels, positions),
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    if labels is not None:
        shape = tuple(encoded.last_hidden_state.shape[:2])
        labels = in_shape(labels, shape)
        if labels.shape != shape:
            raise UserError(f"labels have shape {tuple(labels.shape)}; they must have {shape}")
        labels = F.pad(labels[:, 1:], (0, 1), value=losses.IGNORED)  # (B, S), shifted left
    return language_logits(self, encoded, labels, positions)


def keeps_cache(
    self: ModelWithHead,
    use_cache: bool | None,
    labels: Tensor | None,
    positions: Tensor | None = None,
) -> bool:
    """Return whether a call returns its KV cache.

    By default a decoder in evaluation mode does, as its configuration says, so that the usual loop
    over ``past_key_values`` works. Calls with labels or positions score known texts, and so do
    those of a body that packs sequences, which a cache would prevent.
    """
    if use_cache is not None:
        return use_cache
    scores = labels is not None or positions is not None
    if scores or self.training or getattr(self.body, "packs_at_inference", False):
        return False
    return bool(self.config.is_decoder and self.config.use_cache)


def language_logits(
    self: ModelWithHead, encoded: BertModelOutput, labels: Tensor | None, positions: Tensor | None
) -> LanguageModelOutput:
    """Return language model logits at ``positions``, or without them, everywhere.

    If less than half of the tokens have a label, as for masked words, the loss takes logits of its
    own at the labels: its backward pass then costs a fraction of one through all logits.
    """
    head = language_head(self)
    if head is None:
        raise UserError("the head that predicts tokens was replaced; only its layers can be")
    embeddings, hidden, loss = self.get_input_embeddings(), encoded.last_hidden_state, None
    if labels is not None:
        shape = (hidden.shape[0], hidden.shape[1])
        labelled = labelled_positions(labels, positions, shape, self.config.vocab_size)
        labels = labels.flatten()
    rows = hidden.flatten(0, 1)  # (B * S, D)
    logits = head(hidden if positions is None else rows[positions], embeddings)
    if labels is not None:
        if 2 * labelled.shape[0] < labels.shape[0]:
            scored, labels = head(rows[labelled], embeddings), labels[labelled]
        else:
            scored = logits.flatten(0, 1)
        loss = mean(losses.cross_entropy(scored, labels))
    return LanguageModelOutput(
        loss=loss,
        logits=logits,
        past_key_values=encoded.past_key_values,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
        cross_attentions=encoded.cross_attentions,
        positions=positions,
    )


def check_choices(input_ids: Tensor | None, inputs_embeds: Tensor | None) -> torch.Size:
    """Return the shape of the choices, (B, C, S, ...).

    Raises:
        UserError: there are none, or they have too few dimensions.
    """
    choices = input_ids if input_ids is not None else inputs_embeds
    if choices is None or choices.ndim < 3:
        shape = "nothing" if choices is None else f"shape {tuple(choices.shape)}"
        raise UserError(f"choices are given as {shape}; expected (batch, choices, length)")
    return choices.shape


def flat_choices(tensor: Tensor | None) -> Tensor | None:
    """Return the texts of all choices in one batch. Shape (B * C, ...)."""
    return None if tensor is None else reshape_with_host_copy(tensor, -1, *tensor.shape[2:])


def mean(loss: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean of a loss given as sum and count."""
    return losses.reduced(*loss, "mean")
