"""DeBERTa (He et al. 2021): BERT's blocks with disentangled attention to content and distance.

The classes of version 2 derive from these and differ only in the options of the body.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from torch import Tensor

from heedful.errors import UserError
from heedful.layers.disentangled import DisentangledTerms, Distances
from heedful.layers.multihead import BIASES
from heedful.models import forwards, pretraining
from heedful.models.deberta import names
from heedful.models.deberta.config import DebertaConfig
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.heads import ContextReplacedTokenHead, DenseSequenceHead, SpanHead, TokenHead
from heedful.models.with_head import ModelWithHead


class DebertaModel(Encoder):
    """DeBERTa without a head; it has no pooler.

    Distances count tokens and ignore ``position_ids``. Only position embeddings use
    ``position_ids``, either added to word embeddings (``position_biased_input``), or in the
    enhanced mask decoder.

    Args:
        config: sizes and options.
        decodes: whether the last block is the enhanced mask decoder (He et al. 2021, section 3.2).
            It adds position embeddings to its queries, and then runs again with its own output as
            queries.
    """

    config: DebertaConfig
    prefix = "deberta"
    file_names = names.IN_FILES

    def __init__(self, config: DebertaConfig, decodes: bool = False) -> None:
        config = replace(config, enhanced_mask_decoder=decodes)
        super().__init__(config, add_pooling_layer=False, variant=variant_of(config))

    def why_not_compiled(self) -> str | None:
        """Return why this body cannot be compiled; None if it can be."""
        if self.config.talking_head:
            return "attention heads that mix their scores cannot be compiled"
        return super().why_not_compiled()

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Prune attention heads; see ``pruning.prune_heads``.

        Raises:
            UserError: see ``pruning.prune_heads``; also if heads mix their scores
                (``talking_head``).
        """
        if self.config.talking_head:
            raise UserError("talking_head is true: attention heads that mix cannot be pruned")
        super().prune_heads(heads)

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Split the joined weights of a file; see ``names.split``."""
        width = self.config.hidden_size // self.config.num_attention_heads
        return names.split(names.used_weights(tensors, self.config), width)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Undo ``from_file_layout``."""
        return names.join(weights, self.config.hidden_size // self.config.num_attention_heads)


def variant_of(config: DebertaConfig) -> Variant:
    """Return how a DeBERTa differs from BERT."""
    distances = terms = None
    if config.relative_attention:
        distances = Distances(config.num_distances, config.hidden_size)
        terms = DisentangledTerms(
            names=config.pos_att_type or (), key_bias=False, dropout=config.hidden_dropout_prob
        )
    return Variant(
        score_factors=[config.score_factor] * config.num_hidden_layers,
        project_before_norm=True,
        has_positions=config.position_biased_input or config.enhanced_mask_decoder,
        add_positions=config.position_biased_input,
        queries_add_positions=config.enhanced_mask_decoder,
        distances=distances,
        terms=terms,
        attention_biases=BIASES - {"key"},
        talking_heads=config.talking_head,
    )


class DebertaForSequenceClassification(ModelWithHead):
    """DeBERTa with a classifier or regression on the pooled first token."""

    deberta: DebertaModel
    body_class: ClassVar[type[DebertaModel]] = DebertaModel
    head_in_files = names.POOLED_HEAD

    def __init__(self, config: DebertaConfig) -> None:
        head = DenseSequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            input_dropout=config.pooler_dropout,
            problem_type=config.problem_type,
            activation=config.pooler_hidden_act,
        )
        super().__init__(self.body_class(config), head, at="classifier")

    forward = forwards.classify


class DebertaForTokenClassification(ModelWithHead):
    """DeBERTa with a linear classifier on every token."""

    deberta: DebertaModel
    body_class: ClassVar[type[DebertaModel]] = DebertaModel

    def __init__(self, config: DebertaConfig) -> None:
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.hidden_dropout_prob)
        super().__init__(self.body_class(config), head, at="classifier")

    forward = forwards.classify


class DebertaForQuestionAnswering(ModelWithHead):
    """DeBERTa that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    deberta: DebertaModel
    body_class: ClassVar[type[DebertaModel]] = DebertaModel

    def __init__(self, config: DebertaConfig) -> None:
        head = SpanHead(config.hidden_size, config.num_labels)
        super().__init__(self.body_class(config), head, at="qa_outputs")

    forward = forwards.find_span


class DebertaForMaskedLM(ModelWithHead):
    """DeBERTa that predicts the tokens at masked positions.

    With ``enhanced_mask_decoder`` it also uses absolute positions, as in the paper; the reference
    has no such decoder.

    Raises:
        UserError: the embeddings are narrower than the model, and ``legacy`` is false.
    """

    deberta: DebertaModel
    body_class: ClassVar[type[DebertaModel]] = DebertaModel
    head_in_files = names.LANGUAGE_HEAD

    def __init__(self, config: DebertaConfig) -> None:
        body = self.body_class(config, decodes=config.enhanced_mask_decoder)
        if config.legacy:
            super().__init__(body, language_head(config), at="cls.predictions")
            return
        if config.embedding_width != config.hidden_size:
            raise UserError(
                f"embedding_size is {config.embedding_width} and hidden_size {config.hidden_size}; "
                "unless legacy is true, the masked language model head needs them to be equal"
            )
        head = language_head(replace(config, tie_word_embeddings=True))
        super().__init__(body, head, at="lm_predictions.lm_head")

    forward = forwards.masked_lm


class DebertaForPreTraining(ModelWithHead):
    """DeBERTa that detects replaced tokens; the reference has no such model."""

    deberta: DebertaModel
    body_class: ClassVar[type[DebertaModel]] = DebertaModel
    adds_to_generator_embeddings = True

    def __init__(self, config: DebertaConfig) -> None:
        head = ContextReplacedTokenHead(
            config.hidden_size, config.hidden_act, config.layer_norm_eps
        )
        super().__init__(self.body_class(config), head, at="mask_predictions")

    forward = pretraining.detect_replaced
