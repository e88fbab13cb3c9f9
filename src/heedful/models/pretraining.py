"""The calls of models as they are pre-trained; see ``forwards.py``.

Shapes: B batch, S length, V vocabulary, N positions that are scored.
"""

from torch import Tensor

from heedful import losses
from heedful.models import forwards
from heedful.models.labels import check_classes, class_loss
from heedful.models.outputs import (
    BertModelOutput,
    ClassifierOutput,
    PreTrainingOutput,
    SentenceOrderOutput,
)
from heedful.models.with_head import WithHead


def detect_replaced(
    self: WithHead,
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
    """Tell replaced tokens from original ones: logits of shape (B, S), above 0 for replaced ones.

    ``labels`` are 1 for a replaced token, 0 for an original one. Shape (B, S). The loss is the mean
    over the tokens that ``attention_mask``, then of shape (B, S), does not leave out.

    Raises:
        UserError: an argument has a wrong shape, type or value.
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
        real = slice(None) if attention_mask is None else attention_mask == 1
        loss = forwards.mean(losses.binary_cross_entropy(logits[real], labels[real]))
    return ClassifierOutput(
        loss=loss,
        logits=logits,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def pretrain(
    self: WithHead,
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
    """Score the pieces at every position or some, and whether the second text follows the first.

    ``labels`` and ``positions`` are those of ``predict_masked``. ``next_sentence_label`` is 0 where
    the second text follows the first, 1 where it does not. Shape (B,). Each kind of label may be
    given alone, and then decides the loss alone (the reference has no loss then).

    Raises:
        UserError: an argument has a wrong shape, type or value.
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
    pieces = forwards.score_pieces(self, encoded, labels, positions)
    follows = self.head.seq_relationship(encoded.pooler_output)  # (B, 2)
    loss = pieces.loss
    if next_sentence_label is not None:
        next_loss = forwards.mean(class_loss(follows, next_sentence_label))
        loss = next_loss if loss is None else loss + next_loss
    return PreTrainingOutput(
        loss=loss,
        prediction_logits=pieces.logits,
        seq_relationship_logits=follows,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
        positions=pieces.positions,
    )


def pretrain_order(
    self: WithHead,
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
    """Score the pieces at every position or some, and whether two texts stand in order.

    ``sentence_order_label`` is 0 where they do, 1 where they are swapped. Shape (B,). The rest is
    that of ``pretrain``.

    Raises:
        UserError: an argument has a wrong shape, type or value.
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
