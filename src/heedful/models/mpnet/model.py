"""MPNet (Song et al. 2020): BERT's blocks, with a distance bias that all blocks share."""

from heedful.layers.positions import BucketedPositions
from heedful.models.encoder import Encoder, Variant
from heedful.models.mpnet.config import BUCKETS, MPNetConfig
from heedful.models.roberta.model import (
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)

_IN_FILES = {
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Module names in a file, where they differ from the model's."""


class MPNetModel(Encoder):
    """MPNet without a head.

    Padding has position 1, and the first token position 2. All blocks share one attention bias of
    bucketed distances. Distances count tokens and ignore ``position_ids``.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: MPNetConfig
    prefix = "mpnet"
    file_names = _IN_FILES

    def __init__(self, config: MPNetConfig, add_pooling_layer: bool = True) -> None:
        spare = config.relative_attention_num_buckets - BUCKETS
        bias = BucketedPositions(BUCKETS, config.num_attention_heads, spare=spare)
        super().__init__(config, add_pooling_layer, Variant(bias=bias))


class MPNetForSequenceClassification(RobertaForSequenceClassification):
    """MPNet with a two-layer classifier or regression on the first token."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForMultipleChoice(RobertaForMultipleChoice):
    """MPNet that scores each choice; a softmax runs over the choices of an example."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForTokenClassification(RobertaForTokenClassification):
    """MPNet with a linear classifier on every token."""

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForQuestionAnswering(RobertaForQuestionAnswering):
    """MPNet that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    mpnet: MPNetModel
    body_class = MPNetModel


class MPNetForMaskedLM(RobertaForMaskedLM):
    """MPNet that predicts the tokens at masked positions."""

    mpnet: MPNetModel
    body_class = MPNetModel
