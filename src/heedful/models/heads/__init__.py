"""BERT with a head for a task."""

from heedful.models.heads.texts import (
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForSequenceClassification,
)
from heedful.models.heads.tokens import BertForQuestionAnswering, BertForTokenClassification
from heedful.models.heads.words import BertForMaskedLM, BertForPreTraining, BertLMHeadModel

__all__ = [
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertLMHeadModel",
]
