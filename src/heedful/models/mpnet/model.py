"""MPNet (Song et al. 2020): BERT's blocks, which share what they know of distances."""

from heedful.layers.positions import BucketedPositions
from heedful.models.encoder import Encoder, Variant
from heedful.models.mpnet.config import BUCKETS, MPNetConfig
from heedful.models.mpnet.names import IN_FILES, PREFIX
from heedful.models.roberta.model import (
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)


class MPNetModel(Encoder):
    """MPNet without a head.

    Padding stands at position 1, and the first token at the position after that. A bias of the
    attention scores, of ranges of distances, is the same in all blocks; it counts tokens, whatever
    ``position_ids`` say.

    Args:
        config: its sizes and options.
        add_pooling_layer: whether it has a pooler.
    """

    config: MPNetConfig
    prefix = PREFIX
    in_files = IN_FILES

    def __init__(self, config: MPNetConfig, add_pooling_layer: bool = True) -> None:
        spare = config.relative_attention_num_buckets - BUCKETS
        bias = BucketedPositions(BUCKETS, config.num_attention_heads, spare=spare)
        super().__init__(config, add_pooling_layer, Variant(bias=bias))


class MPNetForSequenceClassification(RobertaForSequenceClassification):
    """MPNet with a classifier, or regression, of two layers on the first token."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForMultipleChoice(RobertaForMultipleChoice):
    """MPNet that gives each choice one score; the choices of an item share a softmax."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForTokenClassification(RobertaForTokenClassification):
    """MPNet with a linear classifier of every token."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForQuestionAnswering(RobertaForQuestionAnswering):
    """MPNet that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForMaskedLM(RobertaForMaskedLM):
    """MPNet that says which tokens stand at masked positions."""

    mpnet: MPNetModel
    body_class = MPNetModel
