"""MPNet (Song et al. 2020): BERT's blocks, which share what they know of distances."""

from heedful.layers.positions import BucketedPositions
from heedful.models import forwards
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.heads import DenseSequenceHead, SequenceHead, SpanHead, TokenHead
from heedful.models.mpnet.config import BUCKETS, MPNetConfig
from heedful.models.mpnet.names import IN_FILES, PREFIX
from heedful.models.with_head import WithHead


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


class MPNetForSequenceClassification(WithHead):
    """MPNet with a classifier, or regression, of two layers on the first token."""

    mpnet: MPNetModel

    def __init__(self, config: MPNetConfig) -> None:
        body = MPNetModel(config, add_pooling_layer=False)
        head = DenseSequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
        )
        super().__init__(body, head, at="classifier")

    forward = forwards.classify


class MPNetForMultipleChoice(WithHead):
    """MPNet that gives each choice one score; the choices of an item share a softmax."""

    mpnet: MPNetModel

    def __init__(self, config: MPNetConfig) -> None:
        body = MPNetModel(config)
        head = SequenceHead(config.hidden_size, 1, dropout=config.hidden_dropout_prob)
        super().__init__(body, head, at="classifier")

    forward = forwards.choose


class MPNetForTokenClassification(WithHead):
    """MPNet with a linear classifier of every token."""

    mpnet: MPNetModel

    def __init__(self, config: MPNetConfig) -> None:
        body = MPNetModel(config, add_pooling_layer=False)
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.head_dropout)
        super().__init__(body, head, at="classifier")

    forward = forwards.classify


class MPNetForQuestionAnswering(WithHead):
    """MPNet that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """

    mpnet: MPNetModel

    def __init__(self, config: MPNetConfig) -> None:
        body = MPNetModel(config, add_pooling_layer=False)
        head = SpanHead(config.hidden_size, config.num_labels)
        super().__init__(body, head, at="qa_outputs")

    forward = forwards.find_span


class MPNetForMaskedLM(WithHead):
    """MPNet that says which tokens stand at masked positions."""

    mpnet: MPNetModel

    def __init__(self, config: MPNetConfig) -> None:
        body = MPNetModel(config, add_pooling_layer=False)
        super().__init__(body, language_head(config, activation="gelu"), at="lm_head")

    forward = forwards.predict_masked
