"""BERT that decides about whole texts, by the pooled first token.

The arguments that ``BertModel.forward`` has too are explained there.

Shapes: B batch, S length, C classes, outputs or choices.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.models import pretrained
from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.heads.body import WithHead
from heedful.models.heads.labels import class_loss, classification_loss
from heedful.models.outputs import SequenceClassifierOutput


class BertForSequenceClassification(WithHead):
    """BERT with a linear classifier, or regression, of the pooled first token.

    Args:
        config: its sizes and options, ``num_labels`` and ``problem_type`` among them.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)
        rate = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        pretrained.initialise(self.classifier, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForSequenceClassification]]" = classmethod(
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
    ) -> SequenceClassifierOutput:
        """Score each text: logits of shape (B, C).

        ``labels`` are one class each, shape (B,); one number each, shape (B,) or (B, C); or 0 or 1
        for every output, shape (B, C).

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
            # The classifier reads the first token; who asks for more gets every token's.
            only_first=not (output_attentions or output_hidden_states),
        )
        logits = self.classifier(self.dropout(encoded.pooler_output))  # (B, C)
        loss = None
        if labels is not None:
            total, count = classification_loss(logits, labels, self.config.problem_type)
            loss = total / count
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class BertForNextSentencePrediction(WithHead):
    """BERT that says whether the second text of a pair follows the first (Devlin et al. 2019, 3.1).

    Args:
        config: its sizes and options.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)
        self.cls = nn.ModuleDict({"seq_relationship": nn.Linear(config.hidden_size, 2)})
        pretrained.initialise(self.cls, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForNextSentencePrediction]]" = classmethod(
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
    ) -> SequenceClassifierOutput:
        """Score each pair: logits of shape (B, 2).

        ``labels`` are 0 where the second text follows the first, 1 where it does not. Shape (B,).

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
            only_first=not (output_attentions or output_hidden_states),
        )
        logits = self.cls["seq_relationship"](encoded.pooler_output)  # (B, 2)
        loss = None
        if labels is not None:
            total, count = class_loss(logits, labels)
            loss = total / count
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class BertForMultipleChoice(WithHead):
    """BERT that gives each choice one score, which the choices of an item share a softmax over.

    Args:
        config: its sizes and options; ``num_labels`` is not used.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)
        rate = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, 1)
        pretrained.initialise(self.classifier, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForMultipleChoice]]" = classmethod(
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
    ) -> SequenceClassifierOutput:
        """Score the C choices of each item: logits of shape (B, C).

        What has shape (B, ...) in ``BertModel.forward`` has shape (B, C, ...) here. ``labels`` are
        the number of the right choice. Shape (B,).

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        words = input_ids if input_ids is not None else inputs_embeds
        if words is None or words.ndim < 3:
            given = "nothing" if words is None else f"shape {tuple(words.shape)}"
            raise UserError(f"choices are given as {given}; expected (batch, choices, length)")
        encoded = self.bert(
            _flat(input_ids),
            _flat(attention_mask),
            _flat(token_type_ids),
            position_ids=_flat(position_ids),
            inputs_embeds=_flat(inputs_embeds),
            head_mask=head_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            only_first=not (output_attentions or output_hidden_states),
        )
        logits = self.classifier(self.dropout(encoded.pooler_output)).view(
            words.shape[:2]
        )  # (B, C)
        loss = None
        if labels is not None:
            total, count = class_loss(logits, labels)
            loss = total / count
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


def _flat(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.flatten(0, 1)  # (B * C, ...)
