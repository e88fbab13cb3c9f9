"""RoBERTa (Liu et al. 2019): BERT's blocks, with positions that skip padding."""

from typing import ClassVar

from heedful.models import continuing, forwards
from heedful.models.bert.model import BertForQuestionAnswering, BertForTokenClassification
from heedful.models.encoder import Encoder, language_head
from heedful.models.heads import DenseSequenceHead, SequenceHead
from heedful.models.roberta.config import RobertaConfig
from heedful.models.with_head import ModelWithHead

_IN_FILES = {
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Module names in a file, where they differ from the model's."""


class RobertaModel(Encoder):
    """RoBERTa without a head.

    Padding has position ``pad_token_id``, and the first token position ``pad_token_id`` + 1.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: RobertaConfig
    prefix = "roberta"
    file_names = _IN_FILES

    def __init__(self, config: RobertaConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config, add_pooling_layer)


class RobertaForSequenceClassification(ModelWithHead):
    """RoBERTa with a two-layer classifier or regression on the first token."""

    roberta: RobertaModel
    body_class: ClassVar[type[Encoder]] = RobertaModel

    def __init__(self, config: RobertaConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        head = DenseSequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
        )
        super().__init__(body, head, at="classifier")

    forward = forwards.classify


class RobertaForMultipleChoice(ModelWithHead):
    """RoBERTa that scores each choice; a softmax runs over the choices of an example."""

    roberta: RobertaModel
    body_class: ClassVar[type[Encoder]] = RobertaModel

    def __init__(self, config: RobertaConfig) -> None:
        body = self.body_class(config)
        head = SequenceHead(config.hidden_size, 1, dropout=config.hidden_dropout_prob)
        super().__init__(body, head, at="classifier")

    forward = forwards.choose


class RobertaForTokenClassification(BertForTokenClassification):
    """RoBERTa with a linear classifier on every token."""

    roberta: RobertaModel
    body_class: ClassVar[type[Encoder]] = RobertaModel


class RobertaForQuestionAnswering(BertForQuestionAnswering):
    """RoBERTa that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    roberta: RobertaModel
    body_class: ClassVar[type[Encoder]] = RobertaModel


class RobertaForMaskedLM(ModelWithHead):
    """RoBERTa that predicts the tokens at masked positions."""

    roberta: RobertaModel
    body_class: ClassVar[type[Encoder]] = RobertaModel

    def __init__(self, config: RobertaConfig) -> None:
        body = self.body_class(config, add_pooling_layer=False)
        super().__init__(body, language_head(config, activation="gelu"), at="lm_head")

    forward = forwards.masked_lm


class RobertaForCausalLM(ModelWithHead):
    """RoBERTa that predicts the next token, for a configuration with ``is_decoder``."""

    roberta: RobertaModel

    def __init__(self, config: RobertaConfig) -> None:
        body = RobertaModel(config, add_pooling_layer=False)
        super().__init__(body, language_head(config, activation="gelu"), at="lm_head")

    forward = forwards.causal_lm
    generate = continuing.generate
