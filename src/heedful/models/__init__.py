"""Layers composed into models, and the reference's folders read and written."""

from torch import nn

from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.encoder_decoder import ARCHITECTURE, BertEncoderDecoder, EncoderDecoderConfig
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
    EncoderDecoderOutput,
    LanguageModelOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
    TranslationOutput,
)
from heedful.models.pretrained import num_parameters
from heedful.models.rnn.config import RnnConfig
from heedful.models.rnn.model import RnnSearch
from heedful.models.transformer.config import ARCHITECTURES, TransformerConfig
from heedful.models.transformer.model import Transformer

Config = BertConfig | EncoderDecoderConfig | RnnConfig | TransformerConfig

MODELS: dict[str, tuple[type[Config], type[nn.Module]]] = {
    "BertModel": (BertConfig, BertModel),
    "BertForMaskedLM": (BertConfig, BertForMaskedLM),
    "BertForMultipleChoice": (BertConfig, BertForMultipleChoice),
    "BertForNextSentencePrediction": (BertConfig, BertForNextSentencePrediction),
    "BertForPreTraining": (BertConfig, BertForPreTraining),
    "BertForQuestionAnswering": (BertConfig, BertForQuestionAnswering),
    "BertForSequenceClassification": (BertConfig, BertForSequenceClassification),
    "BertForTokenClassification": (BertConfig, BertForTokenClassification),
    "BertLMHeadModel": (BertConfig, BertLMHeadModel),
    ARCHITECTURE: (EncoderDecoderConfig, BertEncoderDecoder),
    "RnnSearch": (RnnConfig, RnnSearch),
    ARCHITECTURES[False]: (TransformerConfig, Transformer),
    ARCHITECTURES[True]: (TransformerConfig, Transformer),
}
"""The name that ``architectures`` has in a ``config.json``, to what reads the folder."""

__all__ = [
    "MODELS",
    "BertConfig",
    "BertEncoderDecoder",
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
    "EncoderDecoderConfig",
    "EncoderDecoderOutput",
    "LanguageModelOutput",
    "PreTrainingOutput",
    "QuestionAnsweringOutput",
    "RnnConfig",
    "RnnSearch",
    "SequenceClassifierOutput",
    "TokenClassifierOutput",
    "Transformer",
    "TransformerConfig",
    "TranslationOutput",
    "num_parameters",
]
