"""Forward functions of XLNet models with a head, one for each kind of head.

They are the ``forward`` methods of the public classes. The body's ``forward`` documents the
arguments that it shares with them.

Shapes: B batch, S length, P predicted tokens, D model width, C classes, outputs or choices, V
vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from heedful.errors import UserError
from heedful.models import heads
from heedful.models.forwards import answer_span, check_choices, flat_choices, mean, span_loss
from heedful.models.labels import class_loss
from heedful.models.outputs import (
    XLNetModelOutput,
    XLNetOutput,
    XLNetPointerOutput,
    XLNetSpanOutput,
)
from heedful.models.with_head import ModelWithHead, language_head
from heedful.models.xlnet import streams


def classify(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    mems: Sequence[Tensor] | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
    input_mask: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    use_mems: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> XLNetOutput:
    """Return class logits of each text, shape (B, C), or of each token, shape (B, S, C).

    For ``labels`` see ``forwards.classify``.

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    encoded: XLNetModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        mems=mems,
        perm_mask=perm_mask,
        target_mapping=target_mapping,
        input_mask=input_mask,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        use_mems=use_mems,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
        only_last=heads.reads_last(self.head),
    )
    hidden = encoded.last_hidden_state  # (B, S, D), or (B, P, D)
    if heads.reads_last(self.head):
        hidden = hidden[:, 0]
    elif not self.head.every_token:
        mask = attention_mask if input_mask is None else 1 - input_mask.int()
        hidden = heads.summary(self.head, hidden, mask if target_mapping is None else None)
    logits = self.head(hidden)
    return XLNetOutput(
        loss=None if labels is None else mean(self.head.loss(logits, labels)),
        logits=logits,
        mems=encoded.mems,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def choose(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    mems: Sequence[Tensor] | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
    input_mask: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    use_mems: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> XLNetOutput:
    """Return a logit for each of the C choices of each example. Shape (B, C).

    Arguments of shape (B, S) or (B, S, D) in the body's ``forward`` have shape (B, C, S) or (B, C,
    S, D) here. All other arguments have B * C texts as their batch. ``labels`` are the indices of
    the right choices. Shape (B,).

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    shape = check_choices(input_ids, inputs_embeds)
    output = classify(
        self,
        flat_choices(input_ids),
        flat_choices(attention_mask),
        flat_choices(token_type_ids),
        mems=mems,
        perm_mask=perm_mask,
        target_mapping=target_mapping,
        input_mask=flat_choices(input_mask),
        inputs_embeds=flat_choices(inputs_embeds),
        head_mask=head_mask,
        use_mems=use_mems,
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
    mems: Sequence[Tensor] | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
    input_mask: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    start_positions: Tensor | None = None,
    end_positions: Tensor | None = None,
    use_mems: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> XLNetSpanOutput:
    """Return the start and end logits of the answer, each of shape (B, S).

    For ``start_positions`` and ``end_positions`` see ``forwards.find_span``.

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    encoded: XLNetModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        mems=mems,
        perm_mask=perm_mask,
        target_mapping=target_mapping,
        input_mask=input_mask,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        use_mems=use_mems,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    starts, ends = self.head(encoded.last_hidden_state).unbind(-1)  # each (B, S)
    span = answer_span(start_positions, end_positions)
    return XLNetSpanOutput(
        loss=None if span is None else span_loss(self, starts, ends, span),
        start_logits=starts,
        end_logits=ends,
        mems=encoded.mems,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def point_at_answer(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    mems: Sequence[Tensor] | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
    input_mask: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    start_positions: Tensor | None = None,
    end_positions: Tensor | None = None,
    is_impossible: Tensor | None = None,
    cls_index: Tensor | None = None,
    p_mask: Tensor | None = None,
    use_mems: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> XLNetPointerOutput:
    """Return the loss of an answer span, or without labels the most probable spans.

    ``start_positions`` and ``end_positions`` are the positions of the answer's first and last
    token. ``is_impossible`` is 1 if the question has no answer. ``cls_index`` is the position of
    the class token; None means the last token, and ``is_impossible`` is then ignored, as in the
    reference. Each of shape (B,) or (B, 1). ``p_mask`` is 1 for tokens that cannot be in an answer.
    Shape (B, S).

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    encoded: XLNetModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        mems=mems,
        perm_mask=perm_mask,
        target_mapping=target_mapping,
        input_mask=input_mask,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        use_mems=use_mems,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    hidden, head = encoded.last_hidden_state, self.head
    output = XLNetPointerOutput(
        mems=encoded.mems, hidden_states=encoded.hidden_states, attentions=encoded.attentions
    )
    span = answer_span(start_positions, end_positions)
    if span is not None:
        start, end = (each.flatten() for each in span)
        cls_index, is_impossible = (
            None if each is None else each.flatten() for each in (cls_index, is_impossible)
        )
        loss = head.loss(hidden, start, end, p_mask, cls_index, is_impossible)
        return replace(output, loss=loss)
    best = head.best(hidden, self.config.start_n_top, self.config.end_n_top, p_mask, cls_index)
    return replace(
        output,
        start_top_log_probs=best.starts.values,
        start_top_index=best.starts.indices,
        end_top_log_probs=best.ends.values.flatten(1),
        end_top_index=best.ends.indices.flatten(1),
        cls_logits=best.unanswerable,
    )


def predict_permuted(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    mems: Sequence[Tensor] | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
    input_mask: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    positions: Tensor | None = None,
    use_mems: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> XLNetOutput:
    """Return the logits of all tokens, shape (B, S, V), or of the predicted tokens, (B, P, V).

    ``labels`` are the true token ids; -100 is ignored in the loss. Shape (B, S) or (B, P).
    ``positions`` replace ``target_mapping``: positions of the predicted tokens in the flattened
    batch of B * S tokens, ascending. The logits then have shape (N, V). Without ``perm_mask`` no
    token attends to the predicted tokens. Shape (N,), int64.

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    slots = None
    if positions is not None:
        tokens = input_ids if input_ids is not None else inputs_embeds
        if tokens is None or target_mapping is not None or labels is not None:
            raise UserError("positions replaces target_mapping and labels: give only positions")
        shape = (tokens.shape[0], tokens.shape[1])
        target_mapping, slots = streams.mapping_of(positions, shape)
        if perm_mask is None:
            perm_mask = target_mapping.any(1)[:, None].expand(-1, shape[1], -1)
    encoded: XLNetModelOutput = self.body(
        input_ids,
        attention_mask,
        token_type_ids,
        mems=mems,
        perm_mask=perm_mask,
        target_mapping=target_mapping,
        input_mask=input_mask,
        inputs_embeds=inputs_embeds,
        head_mask=head_mask,
        use_mems=use_mems,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    head = language_head(self)
    assert head is not None
    hidden = encoded.last_hidden_state
    if slots is not None:
        hidden = hidden.flatten(0, 1)[slots]  # (N, D)
    logits = head(hidden, self.get_input_embeddings())
    return XLNetOutput(
        loss=None if labels is None else mean(class_loss(logits, labels)),
        logits=logits,
        mems=encoded.mems,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )
