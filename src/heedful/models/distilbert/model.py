"""DistilBERT (Sanh et al. 2019): half of BERT's blocks, without token types or a pooler."""

from typing import ClassVar

import torch
from torch import nn

from heedful.layers.positions import sinusoids
from heedful.layers.stack import Stack
from heedful.models import forwards
from heedful.models.distilbert.config import DistilBertConfig
from heedful.models.encoder import Encoder, language_head
from heedful.models.heads import DenseSequenceHead, SpanHead, TokenHead
from heedful.models.with_head import ModelWithHead

_DENSE_HEAD = {"classifier.dense": "pre_classifier", "classifier.out_proj": "classifier"}
"""Module names in a file of a two-layer head."""

_IN_FILES = {
    "encoder": "transformer",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""The body's module names in a file, where they differ from the model's."""


class DistilBertModel(Encoder):
    """DistilBERT without a head. It has no token types and ignores ``token_type_ids``.

    Args:
        config: sizes and options.
    """

    config: DistilBertConfig
    prefix = "distilbert"
    file_names = _IN_FILES

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config, add_pooling_layer=False)
        if config.sinusoidal_pos_embds:
            _make_sinusoidal(self.embeddings.position_embeddings)

    @property
    def transformer(self) -> Stack:
        """The stack of blocks, by its name in the reference."""
        return self.encoder


def _make_sinusoidal(table: nn.Module | None) -> None:
    """Fill a table with alternating sines and cosines, and freeze it."""
    assert isinstance(table, nn.Embedding)
    table.requires_grad_(False)
    if table.weight.is_meta:
        return  # a file will provide the values
    vectors = sinusoids(torch.arange(table.num_embeddings), table.embedding_dim)
    halves = vectors.view(len(vectors), 2, -1)  # sines, cosines
    with torch.no_grad():
        table.weight.copy_(halves.mT.flatten(1))


def _dense_head(config: DistilBertConfig, outputs: int) -> DenseSequenceHead:
    return DenseSequenceHead(
        config.dim,
        outputs,
        input_dropout=0.0,
        dropout=config.seq_classif_dropout,
        problem_type=config.problem_type,
        activation="relu",
    )


class DistilBertForSequenceClassification(ModelWithHead):
    """DistilBERT with a two-layer classifier or regression on the first token."""

    distilbert: DistilBertModel
    head_in_files: ClassVar = _DENSE_HEAD

    def __init__(self, config: DistilBertConfig) -> None:
        head = _dense_head(config, config.num_labels)
        super().__init__(DistilBertModel(config), head, at="classifier")

    forward = forwards.classify


class DistilBertForMultipleChoice(ModelWithHead):
    """DistilBERT that scores each choice; a softmax runs over the choices of an example."""

    distilbert: DistilBertModel
    head_in_files: ClassVar = _DENSE_HEAD

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(DistilBertModel(config), _dense_head(config, 1), at="classifier")

    forward = forwards.choose


class DistilBertForTokenClassification(ModelWithHead):
    """DistilBERT with a linear classifier on every token."""

    distilbert: DistilBertModel

    def __init__(self, config: DistilBertConfig) -> None:
        head = TokenHead(config.dim, config.num_labels, dropout=config.dropout)
        super().__init__(DistilBertModel(config), head, at="classifier")

    forward = forwards.classify


class DistilBertForQuestionAnswering(ModelWithHead):
    """DistilBERT that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    distilbert: DistilBertModel

    def __init__(self, config: DistilBertConfig) -> None:
        head = SpanHead(config.dim, config.num_labels, dropout=config.qa_dropout)
        super().__init__(DistilBertModel(config), head, at="qa_outputs")

    forward = forwards.find_span


class DistilBertForMaskedLM(ModelWithHead):
    """DistilBERT that predicts the tokens at masked positions."""

    distilbert: DistilBertModel
    head_in_files: ClassVar = {
        "vocab_projector.transform.dense": "vocab_transform",
        "vocab_projector.transform.LayerNorm": "vocab_layer_norm",
        "vocab_projector.decoder.weight": "vocab_projector.weight",
    }

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(DistilBertModel(config), language_head(config), at="vocab_projector")

    forward = forwards.masked_lm
