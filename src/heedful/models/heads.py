"""BERT with a head for a task.

Shapes: B batch, S length, D model width, C classes or outputs.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heedful import losses
from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.models import pretrained
from heedful.models.bert import BertModel
from heedful.models.config import BertConfig
from heedful.models.outputs import SequenceClassifierOutput


class BertForSequenceClassification(nn.Module):
    """BERT with a linear classifier, or regression, of the pooled first token.

    Args:
        config: its sizes and options, ``num_labels`` and ``problem_type`` among them.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        rate = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        pretrained.initialise(self.classifier, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForSequenceClassification]]" = classmethod(
        pretrained.from_pretrained
    )
    save_pretrained = pretrained.save_pretrained

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether training computes blocks again in the backward pass; see ``BertModel``."""
        return self.bert.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, value: bool) -> None:
        self.bert.gradient_checkpointing = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> SequenceClassifierOutput:
        """Score a batch; the arguments that ``BertModel`` has too are explained there.

        Args:
            input_ids: shape (B, S).
            attention_mask: shape (B, S) or (B, S, S).
            token_type_ids: shape (B, S).
            position_ids: shape (B, S).
            inputs_embeds: shape (B, S, D).
            labels: one class each, shape (B,); one number each, shape (B,) or (B, C); or 0 or 1 for
                every output, shape (B, C).
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the hidden states.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
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


def classification_loss(
    logits: Tensor, labels: Tensor, problem_type: str | None
) -> tuple[Tensor, Tensor]:
    """Return the sum and the count of the loss that fits the labels.

    Args:
        logits: shape (B, C).
        labels: see ``BertForSequenceClassification``.
        problem_type: one of ``config.PROBLEM_TYPES``. None decides as the reference does: one
            output is regression; else integer labels are classes, and others yes or no for each.

    Raises:
        UserError: the labels do not fit the logits.
    """
    batch, classes = logits.shape
    if problem_type is None:
        if classes == 1:
            problem_type = "regression"
        elif labels.dtype in (torch.int64, torch.int32):
            problem_type = "single_label_classification"
        else:
            problem_type = "multi_label_classification"
    shape: tuple[int, ...] = (batch, classes)
    if problem_type == "single_label_classification" or classes == 1:
        labels, shape = labels.squeeze(-1) if labels.ndim == 2 else labels, (batch,)
    if labels.shape != shape:
        raise UserError(f"labels have shape {tuple(labels.shape)}; for {problem_type}, {shape}")

    if problem_type == "single_label_classification":
        _check_classes(labels, classes)
        return losses.cross_entropy(logits, labels)
    logits = logits.reshape(shape)
    if problem_type == "regression":
        return losses.mse(logits, labels)
    return losses.binary_cross_entropy(logits, labels)


def _check_classes(labels: Tensor, classes: int) -> None:
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise UserError(f"labels have type {labels.dtype}; classes are integers")
    # Elsewhere than on a CPU the values could be seen only by waiting for the device.
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = labels[((labels < 0) & (labels != losses.IGNORED)) | (labels >= classes)]
        if len(wrong):
            raise UserError(
                f"labels hold {int(wrong[0])}; the classes are 0 to {classes - 1}, "
                f"and {losses.IGNORED} leaves one out"
            )
