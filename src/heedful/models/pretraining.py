"""The ``forward`` functions of models for pre-training; see ``forwards.py``.

Shapes: B batch, S length, V vocabulary, N scored positions.
"""

from torch import Tensor

from heedful import losses
from heedful.errors import UserError
from heedful.layers import masks
from heedful.models import forwards
from heedful.models.labels import check_classes, class_loss
from heedful.models.outputs import (
    BertModelOutput,
    ClassifierOutput,
    PreTrainingOutput,
    SentenceOrderOutput,
)
from heedful.models.with_head import ModelWithHead


def detect_replaced(
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
    """Detect replaced tokens: logits of shape (B, S), above 0 for a replaced token.

    ``labels`` are 1 for a replaced token, 0 for an original token, -100 for a token that does not
    count. Shape (B, S). The loss is the mean over the tokens where ``attention_mask`` is 1; with
    labels its shape must be (B, S).

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
    logits = self.head(encoded.last_hidden_state)  # (B, S)
    loss = None
    if labels is not None:
        check_classes(labels, tuple(logits.shape), 2)
        tokens = labels != losses.IGNORED
        mask = masks.by_sequence(attention_mask, labels.shape[0])
        if mask is not None:
            if mask.shape != labels.shape:
                raise UserError(
                    f"attention_mask has shape {tuple(mask.shape)}; with labels it must be "
                    f"{tuple(labels.shape)}"
                )
            tokens &= mask == 1
        loss = forwards.mean(losses.binary_cross_entropy(logits[tokens], labels[tokens]))
    return ClassifierOutput(
        loss=loss,
        logits=logits,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def pretrain(
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
    next_sentence_label: Tensor | None = None,
    positions: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> PreTrainingOutput:
    """Predict masked tokens and whether the second text follows the first.

    ``labels`` and ``positions`` are as for ``masked_lm``. ``next_sentence_label`` is 0 if the
    second text follows the first, 1 if not. Shape (B,). The loss covers the given kinds of labels;
    one kind is enough (the reference then returns no loss).

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
    masked = forwards.language_logits(self, encoded, labels, positions)
    next_logits = self.head.seq_relationship(encoded.pooler_output)  # (B, 2)
    loss = masked.loss
    if next_sentence_label is not None:
        next_loss = forwards.mean(class_loss(next_logits, next_sentence_label))
        loss = next_loss if loss is None else loss + next_loss
    return PreTrainingOutput(
        loss=loss,
        prediction_logits=masked.logits,
        seq_relationship_logits=next_logits,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
        positions=masked.positions,
    )


def pretrain_order(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    sentence_order_label: Tensor | None = None,
    positions: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> SentenceOrderOutput:
    """Predict masked tokens and whether two texts are in order.

    ``sentence_order_label`` is 0 if they are in order, 1 if they are swapped. Shape (B,). All other
    arguments are as for ``pretrain``.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
    """
    output = pretrain(
        self,
        input_ids,
        attention_mask,
        token_type_ids,
        position_ids=position_ids,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        labels=labels,
        next_sentence_label=sentence_order_label,
        positions=positions,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    return SentenceOrderOutput(
        loss=output.loss,
        prediction_logits=output.prediction_logits,
        sop_logits=output.seq_relationship_logits,
        hidden_states=output.hidden_states,
        attentions=output.attentions,
        positions=output.positions,
    )
