"""Models composed of layers, which read and write the reference's folders.

A model family is a subfolder with ``config.py``, ``model.py`` and, if models can start from
scratch, ``presets.py``, plus an entry in ``FAMILIES``. The entry defines its public names. They are
imported at first use, because torch is slow to import.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

Head = Literal[
    "body",  # no head: the output is hidden states
    "sequence",
    "token",
    "span",
    "choice",
    "next_sentence",
    "pointer",  # start and end of an answer; the end depends on the start
    "masked_lm",
    "causal_lm",
    "permuted_lm",
    "pretraining",
    "replaced",
    "double",  # language modelling and multiple choice
    "pixels",
    "seq2seq",
]
"""Kind of head of a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Location of a family's classes."""

    package: str
    """Subfolder of ``heedful.models``."""
    config: str
    """Name of the configuration class, in ``config.py``."""
    models: dict[Head, str]
    """Name of the model class for each head, in ``model.py``."""
    reads: Literal["texts", "images"] = "texts"
    """Input of the models."""

    def config_class(self) -> Any:
        """Import the configuration class."""
        return getattr(import_module(f"{__name__}.{self.package}.config"), self.config)

    def model_class(self, head: Head) -> Any:
        """Import the model class for a head that the family has."""
        return getattr(import_module(f"{__name__}.{self.package}.model"), self.models[head])

    def presets(self) -> dict[str, Any]:
        """Import the presets by name: configuration fields, without those of a vocabulary."""
        presets: dict[str, Any] = import_module(f"{__name__}.{self.package}.presets").PRESETS
        return presets

    def generator_sizes(self) -> dict[str, float]:
        """Import the generator's width as a share of the discriminator's, by preset name."""
        sizes: dict[str, float] = import_module(
            f"{__name__}.{self.package}.presets"
        ).GENERATOR_SIZES
        return sizes


_TRANSFORMER = Family(
    package="transformer", config="TransformerConfig", models={"seq2seq": "Transformer"}
)

FAMILIES: dict[str, Family] = {
    "albert": Family(
        package="albert",
        config="AlbertConfig",
        models={
            "body": "AlbertModel",
            "sequence": "AlbertForSequenceClassification",
            "token": "AlbertForTokenClassification",
            "span": "AlbertForQuestionAnswering",
            "choice": "AlbertForMultipleChoice",
            "masked_lm": "AlbertForMaskedLM",
            "pretraining": "AlbertForPreTraining",
        },
    ),
    "bert": Family(
        package="bert",
        config="BertConfig",
        models={
            "body": "BertModel",
            "sequence": "BertForSequenceClassification",
            "token": "BertForTokenClassification",
            "span": "BertForQuestionAnswering",
            "choice": "BertForMultipleChoice",
            "next_sentence": "BertForNextSentencePrediction",
            "masked_lm": "BertForMaskedLM",
            "causal_lm": "BertLMHeadModel",
            "pretraining": "BertForPreTraining",
        },
    ),
    "big_bird": Family(
        package="big_bird",
        config="BigBirdConfig",
        models={
            "body": "BigBirdModel",
            "sequence": "BigBirdForSequenceClassification",
            "token": "BigBirdForTokenClassification",
            "span": "BigBirdForQuestionAnswering",
            "choice": "BigBirdForMultipleChoice",
            "masked_lm": "BigBirdForMaskedLM",
            "causal_lm": "BigBirdForCausalLM",
            "pretraining": "BigBirdForPreTraining",
        },
    ),
    "deberta": Family(
        package="deberta",
        config="DebertaConfig",
        models={
            "body": "DebertaModel",
            "sequence": "DebertaForSequenceClassification",
            "token": "DebertaForTokenClassification",
            "span": "DebertaForQuestionAnswering",
            "masked_lm": "DebertaForMaskedLM",
            "replaced": "DebertaForPreTraining",
        },
    ),
    "deberta-v2": Family(
        package="deberta_v2",
        config="DebertaV2Config",
        models={
            "body": "DebertaV2Model",
            "sequence": "DebertaV2ForSequenceClassification",
            "token": "DebertaV2ForTokenClassification",
            "span": "DebertaV2ForQuestionAnswering",
            "choice": "DebertaV2ForMultipleChoice",
            "masked_lm": "DebertaV2ForMaskedLM",
            "replaced": "DebertaV2ForPreTraining",
        },
    ),
    "distilbert": Family(
        package="distilbert",
        config="DistilBertConfig",
        models={
            "body": "DistilBertModel",
            "sequence": "DistilBertForSequenceClassification",
            "token": "DistilBertForTokenClassification",
            "span": "DistilBertForQuestionAnswering",
            "choice": "DistilBertForMultipleChoice",
            "masked_lm": "DistilBertForMaskedLM",
        },
    ),
    "electra": Family(
        package="electra",
        config="ElectraConfig",
        models={
            "body": "ElectraModel",
            "sequence": "ElectraForSequenceClassification",
            "token": "ElectraForTokenClassification",
            "span": "ElectraForQuestionAnswering",
            "choice": "ElectraForMultipleChoice",
            "masked_lm": "ElectraForMaskedLM",
            "causal_lm": "ElectraForCausalLM",
            "replaced": "ElectraForPreTraining",
        },
    ),
    "encoder-decoder": Family(
        package="encoder_decoder",
        config="EncoderDecoderConfig",
        models={"seq2seq": "BertEncoderDecoder"},
    ),
    "ernie": Family(
        package="ernie",
        config="ErnieConfig",
        models={
            "body": "ErnieModel",
            "sequence": "ErnieForSequenceClassification",
            "token": "ErnieForTokenClassification",
            "span": "ErnieForQuestionAnswering",
            "choice": "ErnieForMultipleChoice",
            "next_sentence": "ErnieForNextSentencePrediction",
            "masked_lm": "ErnieForMaskedLM",
            "causal_lm": "ErnieForCausalLM",
            "pretraining": "ErnieForPreTraining",
        },
    ),
    "gpt2": Family(
        package="gpt2",
        config="GPT2Config",
        models={
            "body": "GPT2Model",
            "sequence": "GPT2ForSequenceClassification",
            "token": "GPT2ForTokenClassification",
            "span": "GPT2ForQuestionAnswering",
            "causal_lm": "GPT2LMHeadModel",
            "double": "GPT2DoubleHeadsModel",
        },
    ),
    "heedful-rnn": Family(package="rnn", config="RnnConfig", models={"seq2seq": "RnnSearch"}),
    "marian": _TRANSFORMER,
    "mpnet": Family(
        package="mpnet",
        config="MPNetConfig",
        models={
            "body": "MPNetModel",
            "sequence": "MPNetForSequenceClassification",
            "token": "MPNetForTokenClassification",
            "span": "MPNetForQuestionAnswering",
            "choice": "MPNetForMultipleChoice",
            "masked_lm": "MPNetForMaskedLM",
        },
    ),
    "pegasus": _TRANSFORMER,
    "roberta": Family(
        package="roberta",
        config="RobertaConfig",
        models={
            "body": "RobertaModel",
            "sequence": "RobertaForSequenceClassification",
            "token": "RobertaForTokenClassification",
            "span": "RobertaForQuestionAnswering",
            "choice": "RobertaForMultipleChoice",
            "masked_lm": "RobertaForMaskedLM",
            "causal_lm": "RobertaForCausalLM",
        },
    ),
    "vit": Family(
        package="vit",
        config="ViTConfig",
        models={
            "body": "ViTModel",
            "sequence": "ViTForImageClassification",
            "pixels": "ViTForMaskedImageModeling",
        },
        reads="images",
    ),
    "xlm-roberta": Family(
        package="xlm_roberta",
        config="XLMRobertaConfig",
        models={
            "body": "XLMRobertaModel",
            "sequence": "XLMRobertaForSequenceClassification",
            "token": "XLMRobertaForTokenClassification",
            "span": "XLMRobertaForQuestionAnswering",
            "choice": "XLMRobertaForMultipleChoice",
            "masked_lm": "XLMRobertaForMaskedLM",
            "causal_lm": "XLMRobertaForCausalLM",
        },
    ),
    "xlnet": Family(
        package="xlnet",
        config="XLNetConfig",
        models={
            "body": "XLNetModel",
            "sequence": "XLNetForSequenceClassification",
            "token": "XLNetForTokenClassification",
            "span": "XLNetForQuestionAnsweringSimple",
            "choice": "XLNetForMultipleChoice",
            "pointer": "XLNetForQuestionAnswering",
            "permuted_lm": "XLNetLMHeadModel",
        },
    ),
}
"""Every family, by the ``model_type`` of its ``config.json``."""

PUBLIC = {
    name: f"{__name__}.{family.package}.{module}"
    for family in FAMILIES.values()
    for module, names in (("config", [family.config]), ("model", family.models.values()))
    for name in names
}
"""Public names defined by the table, with their modules."""

_OTHERS = {
    "load_model": "heedful.models.loading",
}

if TYPE_CHECKING:  # the same names for type checkers
    from heedful.models.albert.config import AlbertConfig as AlbertConfig
    from heedful.models.albert.model import *  # noqa: F403
    from heedful.models.bert.config import BertConfig as BertConfig
    from heedful.models.bert.model import *  # noqa: F403
    from heedful.models.big_bird.config import BigBirdConfig as BigBirdConfig
    from heedful.models.big_bird.model import *  # noqa: F403
    from heedful.models.deberta.config import DebertaConfig as DebertaConfig
    from heedful.models.deberta.model import *  # noqa: F403
    from heedful.models.deberta_v2.config import DebertaV2Config as DebertaV2Config
    from heedful.models.deberta_v2.model import *  # noqa: F403
    from heedful.models.distilbert.config import DistilBertConfig as DistilBertConfig
    from heedful.models.distilbert.model import *  # noqa: F403
    from heedful.models.electra.config import ElectraConfig as ElectraConfig
    from heedful.models.electra.model import *  # noqa: F403
    from heedful.models.encoder_decoder.config import EncoderDecoderConfig as EncoderDecoderConfig
    from heedful.models.encoder_decoder.model import BertEncoderDecoder as BertEncoderDecoder
    from heedful.models.ernie.config import ErnieConfig as ErnieConfig
    from heedful.models.ernie.model import *  # noqa: F403
    from heedful.models.gpt2.config import GPT2Config as GPT2Config
    from heedful.models.gpt2.model import *  # noqa: F403
    from heedful.models.loading import load_model as load_model
    from heedful.models.mpnet.config import MPNetConfig as MPNetConfig
    from heedful.models.mpnet.model import *  # noqa: F403
    from heedful.models.rnn.config import RnnConfig as RnnConfig
    from heedful.models.rnn.model import RnnSearch as RnnSearch
    from heedful.models.roberta.config import RobertaConfig as RobertaConfig
    from heedful.models.roberta.model import *  # noqa: F403
    from heedful.models.transformer.config import TransformerConfig as TransformerConfig
    from heedful.models.transformer.model import Transformer as Transformer
    from heedful.models.vit.config import ViTConfig as ViTConfig
    from heedful.models.vit.model import *  # noqa: F403
    from heedful.models.xlm_roberta.config import XLMRobertaConfig as XLMRobertaConfig
    from heedful.models.xlm_roberta.model import *  # noqa: F403
    from heedful.models.xlnet.config import XLNetConfig as XLNetConfig
    from heedful.models.xlnet.model import *  # noqa: F403


def __getattr__(name: str) -> Any:
    module = {**PUBLIC, **_OTHERS}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC, *_OTHERS})
