"""Layers composed into models, and the reference's folders read and written.

A family of models is a folder here with ``config.py`` and ``model.py``, and a line of ``FAMILIES``.
Its public names follow from that line. They are looked up at first use: torch is slow to import.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

Head = Literal[
    "body",  # none: hidden states are all that is wanted
    "sequence",
    "token",
    "span",
    "choice",
    "next_sentence",
    "masked_lm",
    "causal_lm",
    "pretraining",
    "seq2seq",
]
"""What a model decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Where the classes of a family are. A path is one inside ``heedful.models``."""

    config: str
    """The class of its configurations."""
    models: dict[Head, str]
    """The class of its models with each head."""

    def config_class(self) -> Any:
        """Import the class of its configurations."""
        return _imported(self.config)

    def model_class(self, head: Head) -> Any:
        """Import the class of its models with a head that it has."""
        return _imported(self.models[head])


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"heedful.models.{module}"), name)


_TRANSFORMER = Family(
    config="transformer.config.TransformerConfig",
    models={"seq2seq": "transformer.model.Transformer"},
)

FAMILIES: dict[str, Family] = {
    "bert": Family(
        config="bert.config.BertConfig",
        models={
            "body": "bert.model.BertModel",
            "sequence": "heads.BertForSequenceClassification",
            "token": "heads.BertForTokenClassification",
            "span": "heads.BertForQuestionAnswering",
            "choice": "heads.BertForMultipleChoice",
            "next_sentence": "heads.BertForNextSentencePrediction",
            "masked_lm": "heads.BertForMaskedLM",
            "causal_lm": "heads.BertLMHeadModel",
            "pretraining": "heads.BertForPreTraining",
        },
    ),
    "encoder-decoder": Family(
        config="encoder_decoder.config.EncoderDecoderConfig",
        models={"seq2seq": "encoder_decoder.model.BertEncoderDecoder"},
    ),
    "heedful-rnn": Family(config="rnn.config.RnnConfig", models={"seq2seq": "rnn.model.RnnSearch"}),
    "marian": _TRANSFORMER,
    "pegasus": _TRANSFORMER,
}
"""Every family, by the ``model_type`` of its ``config.json``."""

PUBLIC = {
    path.rpartition(".")[2]: path
    for family in FAMILIES.values()
    for path in (family.config, *family.models.values())
}
"""The public names that follow from the table."""

_OTHERS = {"load_model": "loading.load_model", "num_parameters": "pretrained.num_parameters"}

if TYPE_CHECKING:
    from heedful.models.bert.config import BertConfig as BertConfig
    from heedful.models.bert.model import BertModel as BertModel
    from heedful.models.encoder_decoder.config import EncoderDecoderConfig as EncoderDecoderConfig
    from heedful.models.encoder_decoder.model import BertEncoderDecoder as BertEncoderDecoder
    from heedful.models.heads import BertForMaskedLM as BertForMaskedLM
    from heedful.models.heads import BertForMultipleChoice as BertForMultipleChoice
    from heedful.models.heads import BertForNextSentencePrediction as BertForNextSentencePrediction
    from heedful.models.heads import BertForPreTraining as BertForPreTraining
    from heedful.models.heads import BertForQuestionAnswering as BertForQuestionAnswering
    from heedful.models.heads import BertForSequenceClassification as BertForSequenceClassification
    from heedful.models.heads import BertForTokenClassification as BertForTokenClassification
    from heedful.models.heads import BertLMHeadModel as BertLMHeadModel
    from heedful.models.loading import load_model as load_model
    from heedful.models.pretrained import num_parameters as num_parameters
    from heedful.models.rnn.config import RnnConfig as RnnConfig
    from heedful.models.rnn.model import RnnSearch as RnnSearch
    from heedful.models.transformer.config import TransformerConfig as TransformerConfig
    from heedful.models.transformer.model import Transformer as Transformer


def __getattr__(name: str) -> Any:
    path = {**PUBLIC, **_OTHERS}.get(name)
    if path is None:
        raise AttributeError(f"module 'heedful.models' has no attribute {name!r}")
    value = _imported(path)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC, *_OTHERS})
