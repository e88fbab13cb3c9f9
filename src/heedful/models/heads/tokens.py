"""BERT that decides about each token.

The arguments that ``BertModel.forward`` has too are explained there.

Shapes: B batch, S length, C classes.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from heedful import losses
from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.models import pretrained
from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.heads.body import WithHead
from heedful.models.heads.labels import class_loss
from heedful.models.outputs import QuestionAnsweringOutput, TokenClassifierOutput


class BertForTokenClassification(WithHead):
    """BERT with a linear classifier of every token.

    Args:
        config: its sizes and options, ``num_labels`` among them.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        rate = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        pretrained.initialise(self.classifier, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForTokenClassification]]" = classmethod(
        pretrained.from_pretrained
    )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> TokenClassifierOutput:
        """Score each token: logits of shape (B, S, C).

        ``labels`` are one class each, or -100 for a token that has none. Shape (B, S).

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        logits = self.classifier(self.dropout(encoded.last_hidden_state))  # (B, S, C)
        loss = None
        if labels is not None:
            total, count = class_loss(logits, labels)
            loss = total / count
        return TokenClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class BertForQuestionAnswering(WithHead):
    """BERT that says where in a text an answer starts and ends.

    Args:
        config: its sizes and options; ``num_labels`` is 2, one for each end.

    Raises:
        UserError: ``num_labels`` is not 2.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.num_labels != 2:
            raise UserError(f"num_labels is {config.num_labels}; answers have 2: start and end")
        self.bert = BertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        pretrained.initialise(self.qa_outputs, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForQuestionAnswering]]" = classmethod(
        pretrained.from_pretrained
    )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> QuestionAnsweringOutput:
        """Score each token as an end of the answer: two logits of shape (B, S).

        ``start_positions`` and ``end_positions`` are the tokens that the answer starts and ends
        with, shape (B,). As in the reference, one from S on counts for nothing, and one below 0
        stands for 0. The loss is the mean of the two ends' means.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        if (start_positions is None) != (end_positions is None):
            raise UserError("give both start_positions and end_positions, or neither")
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        start, end = self.qa_outputs(encoded.last_hidden_state).unbind(-1)  # each (B, S)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (_end_loss(start, start_positions) + _end_loss(end, end_positions)) / 2
        return QuestionAnsweringOutput(
            loss=loss,
            start_logits=start,
            end_logits=end,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


def _end_loss(logits: Tensor, positions: Tensor) -> Tensor:
    length = logits.shape[1]
    positions = positions.squeeze(-1) if positions.ndim == 2 else positions
    inside = positions.clamp(min=0)
    total, count = class_loss(logits, inside.masked_fill(inside >= length, losses.IGNORED))
    return total / count
