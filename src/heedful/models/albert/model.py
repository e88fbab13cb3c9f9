"""ALBERT (Lan et al. 2020): BERT's blocks, shared between layers, on narrow embeddings.

Shapes: M distinct blocks.
"""

from heedful.layers.stack import Order
from heedful.models import pretraining
from heedful.models.albert.config import AlbertConfig
from heedful.models.bert.model import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.language_heads import PreTrainingHead
from heedful.models.with_head import ModelWithHead

_IN_FILES = {
    "embeddings.project": "encoder.embedding_hidden_mapping_in",
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.self.distance_embedding": "attention.distance_embedding",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
    "pooler.dense": "pooler",
    "cls.predictions": "predictions",
    "cls.predictions.transform.dense": "predictions.dense",
    "cls.predictions.transform.LayerNorm": "predictions.LayerNorm",
    "cls.seq_relationship": "sop_classifier.classifier",
}
"""Module names in a file, where they differ from the model's."""


class AlbertModel(Encoder):
    """ALBERT without a head.

    Head masks have a row for each of the M blocks, and pruned heads are listed by block. Layers
    that share a block share its heads. The reference prunes in the same way. It accepts head masks
    with a row for each layer, but uses only the first M rows.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: AlbertConfig
    prefix = "albert"

    def __init__(self, config: AlbertConfig, add_pooling_layer: bool = True) -> None:
        order = Order(config.block_numbers, blocks_per_layer=config.inner_group_num)
        # The reference adds the distance biases after scaling the other scores.
        variant = Variant(order=order, project_embeddings=True, scale_position_scores=False)
        super().__init__(config, add_pooling_layer, variant)
        self.file_names = _in_files(config)


def _in_files(config: AlbertConfig) -> dict[str, str]:
    """Return a map from module names to their names in a file, where the two differ."""
    blocks = {}
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        name_in_file = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        blocks[f"encoder.layer.{number}"] = name_in_file
    return _IN_FILES | blocks


class AlbertForSequenceClassification(BertForSequenceClassification):
    """ALBERT with a linear classifier or regression on the pooled first token."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForMultipleChoice(BertForMultipleChoice):
    """ALBERT that scores each choice; a softmax runs over the choices of an example."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForTokenClassification(BertForTokenClassification):
    """ALBERT with a linear classifier on every token."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForQuestionAnswering(BertForQuestionAnswering):
    """ALBERT that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForMaskedLM(BertForMaskedLM):
    """ALBERT that predicts the tokens at masked positions."""

    albert: AlbertModel
    body_class = AlbertModel


class AlbertForPreTraining(ModelWithHead):
    """ALBERT with its two pre-training heads: masked language model and sentence order."""

    albert: AlbertModel

    def __init__(self, config: AlbertConfig) -> None:
        body = AlbertModel(config)
        head = PreTrainingHead(
            language_head(config), config.hidden_size, dropout=config.head_dropout
        )
        super().__init__(body, head, at="cls")

    forward = pretraining.pretrain_order
