"""BERT (Devlin et al. 2019), without and with task heads."""

from typing import ClassVar

from heedful.models import continuing, forwards, pretraining
from heedful.models.bert.config import BertConfig
from heedful.models.encoder import Encoder, language_head
from heedful.models.heads import SequenceHead, SpanHead, TokenHead
from heedful.models.language_heads import PreTrainingHead
from heedful.models.with_head import ModelWithHead


class BertModel(Encoder):
    """BERT without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: BertConfig
    prefix = "bert"

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config, add_pooling_layer)


class BertForSequenceClassification(ModelWithHead):
    """BERT with a linear classifier or regression on the pooled first token."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config)
        head = SequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
        )
        super().__init__(body, head, at="classifier")

    forward = forwards.classify


class BertForNextSentencePrediction(ModelWithHead):
    """BERT that predicts whether the second text follows the first (Devlin et al. 2019, 3.1).

    The first of its two logits is for a second text that follows.
    """

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config)
        head = SequenceHead(config.hidden_size, 2, problem_type="single_label_classification")
        super().__init__(body, head, at="cls.seq_relationship")

    forward = forwards.classify


class BertForMultipleChoice(ModelWithHead):
    """BERT that scores each choice; a softmax runs over the choices of an example."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config)
        head = SequenceHead(config.hidden_size, 1, dropout=config.head_dropout)
        super().__init__(body, head, at="classifier")

    forward = forwards.choose


class BertForTokenClassification(ModelWithHead):
    """BERT with a linear classifier on every token."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.head_dropout)
        super().__init__(body, head, at="classifier")

    forward = forwards.classify


class BertForQuestionAnswering(ModelWithHead):
    """BERT that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        head = SpanHead(config.hidden_size, config.num_labels)
        super().__init__(body, head, at="qa_outputs")

    forward = forwards.find_span


class BertForMaskedLM(ModelWithHead):
    """BERT that predicts the tokens at masked positions (Devlin et al. 2019, section 3.1)."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        super().__init__(body, language_head(config), at="cls.predictions")

    forward = forwards.masked_lm


class BertLMHeadModel(ModelWithHead):
    """BERT that predicts the next token, for a configuration with ``is_decoder``."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        super().__init__(body, language_head(config), at="cls.predictions")

    forward = forwards.causal_lm
    generate = continuing.generate


class BertForPreTraining(ModelWithHead):
    """BERT with its two pre-training heads: masked language model and next sentence."""

    bert: BertModel
    body_class: ClassVar[type[Encoder]] = BertModel

    def __init__(self, config: BertConfig) -> None:
        body = self.body_class(config)
        head = PreTrainingHead(language_head(config), config.hidden_size)
        super().__init__(body, head, at="cls")

    forward = pretraining.pretrain
