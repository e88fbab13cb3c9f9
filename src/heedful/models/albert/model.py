"""ALBERT (Lan et al. 2020): BERT's blocks, shared by the layers, over narrow embeddings.

Shapes: M blocks, each counted once.
"""

from heedful.layers.stack import Order
from heedful.models import pretraining
from heedful.models.albert.config import AlbertConfig
from heedful.models.albert.names import PREFIX, in_files
from heedful.models.bert.model import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.heads import PreTrainingHead
from heedful.models.with_head import WithHead


class AlbertModel(Encoder):
    """ALBERT without a head.

    Head masks have a row, and pruned heads a number, for each of the M blocks: layers that share a
    block share its heads. The reference, too, prunes them so; of a mask with a row for each layer
    it reads no more rows than these.

    Args:
        config: its sizes and options.
        add_pooling_layer: whether it has a pooler.
    """

    config: AlbertConfig
    prefix = PREFIX

    def __init__(self, config: AlbertConfig, add_pooling_layer: bool = True) -> None:
        order = Order(config.block_numbers, together=config.inner_group_num)
        # The reference adds biases of distances after the other scores were scaled.
        variant = Variant(order=order, widen=True, scaled=False)
        super().__init__(config, add_pooling_layer, variant)
        self.in_files = in_files(config)


class AlbertForSequenceClassification(BertForSequenceClassification):
    """ALBERT with a linear classifier, or regression, of the pooled first token."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForMultipleChoice(BertForMultipleChoice):
    """ALBERT that gives each choice one score; the choices of an item share a softmax."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForTokenClassification(BertForTokenClassification):
    """ALBERT with a linear classifier of every token."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForQuestionAnswering(BertForQuestionAnswering):
    """ALBERT that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForMaskedLM(BertForMaskedLM):
    """ALBERT that says which pieces stand at masked positions."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForPreTraining(WithHead):
    """ALBERT with the two heads that it was pre-trained with: masked pieces, sentence order."""

    albert: AlbertModel

    def __init__(self, config: AlbertConfig) -> None:
        body = AlbertModel(config)
        head = PreTrainingHead(
            language_head(config), config.hidden_size, dropout=config.head_dropout
        )
        super().__init__(body, head, at="cls")

    forward = pretraining.pretrain_order
