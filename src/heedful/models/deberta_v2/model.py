"""DeBERTa v2 and v3 (He et al. 2021, 2023), with distance buckets and an optional convolution."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import DisentangledTerms, Distances
from heedful.layers.multihead import BIASES
from heedful.models import forwards
from heedful.models.deberta.model import (
    DebertaForMaskedLM,
    DebertaForPreTraining,
    DebertaForQuestionAnswering,
    DebertaForSequenceClassification,
    DebertaForTokenClassification,
    DebertaModel,
    variant_of,
)
from heedful.models.deberta.names import POOLED_HEAD, SHARED, used_weights
from heedful.models.deberta_v2.config import DebertaV2Config
from heedful.models.encoder import Encoder
from heedful.models.heads import DenseSequenceHead
from heedful.models.with_head import ModelWithHead

_IN_FILES = SHARED | {
    "attention.self.query": "attention.self.query_proj",
    "attention.self.key": "attention.self.key_proj",
    "attention.self.value": "attention.self.value_proj",
    "attention.self.disentangled.key": "attention.self.pos_key_proj",
    "attention.self.disentangled.query": "attention.self.pos_query_proj",
}
"""Module names in a file, where they differ from the model's."""


class DebertaV2Model(DebertaModel):
    """DeBERTa v2 or v3 without a head; see ``DebertaModel``."""

    config: DebertaV2Config
    file_names = _IN_FILES

    def __init__(self, config: DebertaV2Config, decodes: bool = False) -> None:
        config = replace(config, enhanced_mask_decoder=decodes)
        variant = variant_of(config)
        if config.relative_attention:
            variant = replace(variant, distances=_distances(config), terms=_terms(config))
        if config.conv_kernel_size:
            variant = replace(variant, convolution=_convolution(config))
        variant = replace(variant, attention_biases=BIASES)
        Encoder.__init__(self, config, add_pooling_layer=False, variant=variant)

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a file's tensors under the names that the model expects."""
        return used_weights(tensors, self.config)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights unchanged, since a file has the same layout."""
        return dict(weights)


def _distances(config: DebertaV2Config) -> Distances:
    return Distances(
        config.position_buckets if config.position_buckets > 0 else config.num_distances,
        config.hidden_size,
        max_distance=config.num_distances - 1 if config.has_ranges else None,
        eps=config.layer_norm_eps if config.norm_rel_ebd == "layer_norm" else None,
    )


def _terms(config: DebertaV2Config) -> DisentangledTerms:
    return DisentangledTerms(
        names=config.pos_att_type or (),
        shares=config.share_att_key,
        dropout=config.hidden_dropout_prob,
    )


def _convolution(config: DebertaV2Config) -> Convolution:
    return Convolution(
        config.hidden_size,
        config.conv_kernel_size,
        config.conv_groups,
        config.conv_act,
        config.hidden_dropout_prob,
        config.layer_norm_eps,
    )


class DebertaV2ForSequenceClassification(DebertaForSequenceClassification):
    """DeBERTa with a classifier or regression on the pooled first token."""

    body_class = DebertaV2Model


class DebertaV2ForMultipleChoice(ModelWithHead):
    """DeBERTa that scores each choice; a softmax runs over the choices of an example."""

    deberta: DebertaV2Model
    head_in_files = POOLED_HEAD

    def __init__(self, config: DebertaV2Config) -> None:
        head = DenseSequenceHead(
            config.hidden_size,
            1,
            dropout=config.head_dropout,
            input_dropout=config.pooler_dropout,
            problem_type=None,
            activation=config.pooler_hidden_act,
        )
        super().__init__(DebertaV2Model(config), head, at="classifier")

    forward = forwards.choose


class DebertaV2ForTokenClassification(DebertaForTokenClassification):
    """DeBERTa with a linear classifier on every token."""

    body_class = DebertaV2Model


class DebertaV2ForQuestionAnswering(DebertaForQuestionAnswering):
    """DeBERTa that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    body_class = DebertaV2Model


class DebertaV2ForMaskedLM(DebertaForMaskedLM):
    """DeBERTa that predicts the tokens at masked positions; see ``DebertaForMaskedLM``."""

    body_class = DebertaV2Model


class DebertaV2ForPreTraining(DebertaForPreTraining):
    """DeBERTa v3 that detects replaced tokens (He et al. 2023, section 3.1)."""

    body_class = DebertaV2Model
