"""Layers composed into models, and the reference's folders read and written."""

from torch import nn

from heedful.models.bert import BertModel
from heedful.models.config import BertConfig
from heedful.models.heads import BertForSequenceClassification
from heedful.models.outputs import BertModelOutput, SequenceClassifierOutput
from heedful.models.pretrained import num_parameters

MODELS: dict[str, tuple[type[BertConfig], type[nn.Module]]] = {
    "BertModel": (BertConfig, BertModel),
    "BertForSequenceClassification": (BertConfig, BertForSequenceClassification),
}
"""The name that ``architectures`` has in a ``config.json``, to what reads the folder."""

__all__ = [
    "MODELS",
    "BertConfig",
    "BertForSequenceClassification",
    "BertModel",
    "BertModelOutput",
    "SequenceClassifierOutput",
    "num_parameters",
]
