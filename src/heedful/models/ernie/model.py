"""ERNIE (Sun et al. 2019): BERT's blocks, pre-trained on whole entities and phrases.

From version 2.0 on (Sun et al. 2020), tokens can also have a task type.
"""

from heedful.models.bert.model import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
)
from heedful.models.encoder import Encoder, Variant
from heedful.models.ernie.config import ErnieConfig


class ErnieModel(Encoder):
    """ERNIE without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: ErnieConfig
    prefix = "ernie"

    def __init__(self, config: ErnieConfig, add_pooling_layer: bool = True) -> None:
        num_tasks = config.task_type_vocab_size if config.use_task_id else 0
        super().__init__(config, add_pooling_layer, Variant(num_tasks=num_tasks))


class ErnieForSequenceClassification(BertForSequenceClassification):
    """ERNIE with a linear classifier or regression on the pooled first token."""

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForNextSentencePrediction(BertForNextSentencePrediction):
    """ERNIE that predicts whether the second text follows the first.

    The first of its two logits is for a second text that follows.
    """

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForMultipleChoice(BertForMultipleChoice):
    """ERNIE that scores each choice; a softmax runs over the choices of an example."""

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForTokenClassification(BertForTokenClassification):
    """ERNIE with a linear classifier on every token."""

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForQuestionAnswering(BertForQuestionAnswering):
    """ERNIE that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForMaskedLM(BertForMaskedLM):
    """ERNIE that predicts the tokens at masked positions."""

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForCausalLM(BertLMHeadModel):
    """ERNIE that predicts the next token, for a configuration with ``is_decoder``."""

    ernie: ErnieModel
    body_class = ErnieModel


class ErnieForPreTraining(BertForPreTraining):
    """ERNIE with BERT's two pre-training heads: masked language model and next sentence."""

    ernie: ErnieModel
    body_class = ErnieModel
