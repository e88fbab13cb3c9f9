"""ERNIE (Sun et al. 2019): BERT's blocks, pre-trained on whole entities and phrases.

From version 2.0 on (Sun et al. 2020), tokens can also have a task type.
"""

from heedful.models import forwards, pretraining
from heedful.models.bert.model import (
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForTokenClassification,
    BertLMHeadModel,
)
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.ernie.config import ErnieConfig
from heedful.models.heads import PreTrainingHead, SequenceHead
from heedful.models.with_head import ModelWithHead


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


class ErnieForSequenceClassification(ModelWithHead):
    """ERNIE with a linear classifier or regression on the pooled first token."""

    ernie: ErnieModel

    def __init__(self, config: ErnieConfig) -> None:
        head = SequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
        )
        super().__init__(ErnieModel(config), head, at="classifier")

    forward = forwards.classify


class ErnieForNextSentencePrediction(ModelWithHead):
    """ERNIE that predicts whether the second text follows the first.

    The first of its two logits is for a second text that follows.
    """

    ernie: ErnieModel

    def __init__(self, config: ErnieConfig) -> None:
        head = SequenceHead(config.hidden_size, 2, problem_type="single_label_classification")
        super().__init__(ErnieModel(config), head, at="cls.seq_relationship")

    forward = forwards.classify


class ErnieForMultipleChoice(ModelWithHead):
    """ERNIE that scores each choice; a softmax runs over the choices of an example."""

    ernie: ErnieModel

    def __init__(self, config: ErnieConfig) -> None:
        head = SequenceHead(config.hidden_size, 1, dropout=config.head_dropout)
        super().__init__(ErnieModel(config), head, at="classifier")

    forward = forwards.choose


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


class ErnieForPreTraining(ModelWithHead):
    """ERNIE with BERT's two pre-training heads: masked language model and next sentence."""

    ernie: ErnieModel

    def __init__(self, config: ErnieConfig) -> None:
        head = PreTrainingHead(language_head(config), config.hidden_size)
        super().__init__(ErnieModel(config), head, at="cls")

    forward = pretraining.pretrain
