"""Layers composed into models, and the reference's folders read and written."""

from torch import nn

from heedful.models.bert import BertModel
from heedful.models.config import BertConfig
from heedful.models.heads import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
)
from heedful.models.outputs import (
    BertModelOutput,
    LanguageModelOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from heedful.models.pretrained import num_parameters

MODELS: dict[str, tuple[type[BertConfig], type[nn.Module]]] = {
    "BertModel": (BertConfig, BertModel),
    "BertForMaskedLM": (BertConfig, BertForMaskedLM),
    "BertForMultipleChoice": (BertConfig, BertForMultipleChoice),
    "BertForNextSentencePrediction": (BertConfig, BertForNextSentencePrediction),
    "BertForPreTraining": (BertConfig, BertForPreTraining),
    "BertForQuestionAnswering": (BertConfig, BertForQuestionAnswering),
    "BertForSequenceClassification": (BertConfig, BertForSequenceClassification),
    "BertForTokenClassification": (BertConfig, BertForTokenClassification),
    "BertLMHeadModel": (BertConfig, BertLMHeadModel),
}
"""The name that ``architectures`` has in a ``config.json``, to what reads the folder."""

__all__ = [
    "MODELS",
    "BertConfig",
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertLMHeadModel",
    "BertModel",
    "BertModelOutput",
    "LanguageModelOutput",
    "PreTrainingOutput",
    "QuestionAnsweringOutput",
    "SequenceClassifierOutput",
    "TokenClassifierOutput",
    "num_parameters",
]
