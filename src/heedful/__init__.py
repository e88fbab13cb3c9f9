"""heedful: turn your own text into working BERT and Transformer models, on your own machine."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.models import PUBLIC

__version__ = "0.1.0"

# Public name -> module. Modules are imported at first use, so that importing heedful is fast and
# the command line's help needs no torch.
_HOMES = {
    **dict.fromkeys(PUBLIC, "heedful.models"),
    "AddedToken": "heedful.tokens",
    "AlbertPreTrainedModel": "heedful.models.custom",
    "AlbertTokenizer": "heedful.tokens",
    "AlbertTokenizerFast": "heedful.tokens",
    "BertPreTrainedModel": "heedful.models.custom",
    "BertTokenizer": "heedful.tokens",
    "BertTokenizerFast": "heedful.tokens",
    "BigBirdTokenizer": "heedful.tokens",
    "BigBirdTokenizerFast": "heedful.tokens",
    "DebertaTokenizer": "heedful.tokens",
    "DebertaTokenizerFast": "heedful.tokens",
    "DebertaV2PreTrainedModel": "heedful.models.custom",
    "DebertaV2Tokenizer": "heedful.tokens",
    "DebertaV2TokenizerFast": "heedful.tokens",
    "DistilBertPreTrainedModel": "heedful.models.custom",
    "DistilBertTokenizer": "heedful.tokens",
    "DistilBertTokenizerFast": "heedful.tokens",
    "ElectraPreTrainedModel": "heedful.models.custom",
    "ElectraTokenizer": "heedful.tokens",
    "ElectraTokenizerFast": "heedful.tokens",
    "GPT2Tokenizer": "heedful.tokens",
    "GPT2TokenizerFast": "heedful.tokens",
    "MPNetTokenizer": "heedful.tokens",
    "MPNetTokenizerFast": "heedful.tokens",
    "Prediction": "heedful.tasks.answers.labels",
    "Predictor": "heedful.predictor",
    "RobertaPreTrainedModel": "heedful.models.custom",
    "RobertaTokenizer": "heedful.tokens",
    "RobertaTokenizerFast": "heedful.tokens",
    "Search": "heedful.decoding.search",
    "TextTokenizer": "heedful.tokens",
    "TranslationTokenizer": "heedful.tokens",
    "UserError": "heedful.errors",
    "ViTImageProcessor": "heedful.images.processor",
    "XLMRobertaTokenizer": "heedful.tokens",
    "XLMRobertaTokenizerFast": "heedful.tokens",
    "XLNetTokenizer": "heedful.tokens",
    "XLNetTokenizerFast": "heedful.tokens",
    "compare": "heedful.commands.python",
    "evaluate": "heedful.commands.python",
    "explain": "heedful.commands.python",
    "get_constant_schedule": "heedful.training.schedule",
    "get_constant_schedule_with_warmup": "heedful.training.schedule",
    "get_cosine_schedule_with_warmup": "heedful.training.schedule",
    "get_cosine_with_hard_restarts_schedule_with_warmup": "heedful.training.schedule",
    "get_inverse_sqrt_schedule": "heedful.training.schedule",
    "get_linear_schedule_with_warmup": "heedful.training.schedule",
    "get_polynomial_decay_schedule_with_warmup": "heedful.training.schedule",
    "get_scheduler": "heedful.training.schedule",
    "load": "heedful.predictor",
    "load_model": "heedful.models",
    "load_tokenizer": "heedful.tokens",
    "report": "heedful.commands.python",
    "train": "heedful.commands.python",
}
__all__ = ["__version__", *_HOMES]

# What the reference has and heedful has not -> what to use instead.
_INSTEAD = {
    "AdamW": "torch.optim.AdamW",
    "DataCollatorForLanguageModeling": "heedful.train('pretrain', ...), which masks words",
    "DataCollatorWithPadding": "tokenizer.pad(batch, return_tensors='pt')",
    "EncoderDecoderModel": "heedful.BertEncoderDecoder",
    "GenerationConfig": "the arguments of model.generate",
    "MarianMTModel": "heedful.load(folder), or heedful.Transformer",
    "MarianTokenizer": "heedful.TranslationTokenizer",
    "PreTrainedModel": "heedful.BertPreTrainedModel, or an nn.Module around heedful.BertModel",
    "Trainer": "heedful.train(task, train=..., out=...), or a loop of your own",
    "TrainingArguments": "heedful.train(task, train=..., out=...)",
    "ViTFeatureExtractor": "heedful.ViTImageProcessor",
    "default_data_collator": "tokenizer.pad(batch, return_tensors='pt')",
    "logging": "Python's logging module",
    "pipeline": "heedful.load(folder), which answers texts",
    "set_seed": "torch.manual_seed(seed)",
}
_AUTO = {
    "AutoConfig": "heedful.load_model(folder).config",
    "AutoModel": "heedful.load_model(folder, head=...)",
    "AutoTokenizer": "heedful.load_tokenizer(folder)",
}

if TYPE_CHECKING:
    from heedful.commands.python import compare as compare
    from heedful.commands.python import evaluate as evaluate
    from heedful.commands.python import explain as explain
    from heedful.commands.python import report as report
    from heedful.commands.python import train as train
    from heedful.decoding.search import Search as Search
    from heedful.errors import UserError as UserError
    from heedful.images.processor import ViTImageProcessor as ViTImageProcessor
    from heedful.models import *  # noqa: F403
    from heedful.models.custom import AlbertPreTrainedModel as AlbertPreTrainedModel
    from heedful.models.custom import BertPreTrainedModel as BertPreTrainedModel
    from heedful.models.custom import DebertaV2PreTrainedModel as DebertaV2PreTrainedModel
    from heedful.models.custom import DistilBertPreTrainedModel as DistilBertPreTrainedModel
    from heedful.models.custom import ElectraPreTrainedModel as ElectraPreTrainedModel
    from heedful.models.custom import RobertaPreTrainedModel as RobertaPreTrainedModel
    from heedful.predictor import Predictor as Predictor
    from heedful.predictor import load as load
    from heedful.tasks.answers.labels import Prediction as Prediction
    from heedful.tokens import AddedToken as AddedToken
    from heedful.tokens import AlbertTokenizer as AlbertTokenizer
    from heedful.tokens import AlbertTokenizerFast as AlbertTokenizerFast
    from heedful.tokens import BertTokenizer as BertTokenizer
    from heedful.tokens import BertTokenizerFast as BertTokenizerFast
    from heedful.tokens import BigBirdTokenizer as BigBirdTokenizer
    from heedful.tokens import BigBirdTokenizerFast as BigBirdTokenizerFast
    from heedful.tokens import DebertaTokenizer as DebertaTokenizer
    from heedful.tokens import DebertaTokenizerFast as DebertaTokenizerFast
    from heedful.tokens import DebertaV2Tokenizer as DebertaV2Tokenizer
    from heedful.tokens import DebertaV2TokenizerFast as DebertaV2TokenizerFast
    from heedful.tokens import DistilBertTokenizer as DistilBertTokenizer
    from heedful.tokens import DistilBertTokenizerFast as DistilBertTokenizerFast
    from heedful.tokens import ElectraTokenizer as ElectraTokenizer
    from heedful.tokens import ElectraTokenizerFast as ElectraTokenizerFast
    from heedful.tokens import GPT2Tokenizer as GPT2Tokenizer
    from heedful.tokens import GPT2TokenizerFast as GPT2TokenizerFast
    from heedful.tokens import MPNetTokenizer as MPNetTokenizer
    from heedful.tokens import MPNetTokenizerFast as MPNetTokenizerFast
    from heedful.tokens import RobertaTokenizer as RobertaTokenizer
    from heedful.tokens import RobertaTokenizerFast as RobertaTokenizerFast
    from heedful.tokens import TextTokenizer as TextTokenizer
    from heedful.tokens import TranslationTokenizer as TranslationTokenizer
    from heedful.tokens import XLMRobertaTokenizer as XLMRobertaTokenizer
    from heedful.tokens import XLMRobertaTokenizerFast as XLMRobertaTokenizerFast
    from heedful.tokens import XLNetTokenizer as XLNetTokenizer
    from heedful.tokens import XLNetTokenizerFast as XLNetTokenizerFast
    from heedful.tokens import load_tokenizer as load_tokenizer
    from heedful.training.schedule import (
        get_constant_schedule as get_constant_schedule,
    )
    from heedful.training.schedule import (
        get_constant_schedule_with_warmup as get_constant_schedule_with_warmup,
    )
    from heedful.training.schedule import (
        get_cosine_schedule_with_warmup as get_cosine_schedule_with_warmup,
    )
    from heedful.training.schedule import (
        get_cosine_with_hard_restarts_schedule_with_warmup as get_cosine_with_hard_restarts_schedule_with_warmup,  # noqa: E501
    )
    from heedful.training.schedule import (
        get_inverse_sqrt_schedule as get_inverse_sqrt_schedule,
    )
    from heedful.training.schedule import (
        get_linear_schedule_with_warmup as get_linear_schedule_with_warmup,
    )
    from heedful.training.schedule import (
        get_polynomial_decay_schedule_with_warmup as get_polynomial_decay_schedule_with_warmup,
    )
    from heedful.training.schedule import get_scheduler as get_scheduler


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            auto = next((call for start, call in _AUTO.items() if name.startswith(start)), None)
            if instead := auto or _INSTEAD.get(name):
                raise ImportError(f"heedful has no {name}; use {instead}", name=name)
            package = sys.modules[__name__]  # for Python's suggestion of the nearest name
            raise AttributeError(
                f"module 'heedful' has no attribute {name!r}", name=name, obj=package
            )
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
