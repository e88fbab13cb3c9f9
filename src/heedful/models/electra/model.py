"""ELECTRA (Clark et al. 2020): BERT's blocks on embeddings that may be narrower than the blocks.

Two models are trained jointly. The generator, ``ElectraForMaskedLM``, fills masked positions. The
discriminator, ``ElectraForPreTraining``, predicts which tokens it replaced. Fine-tuning uses the
discriminator.
"""

from heedful.models import continuing, forwards, pretraining
from heedful.models.electra.config import ElectraConfig
from heedful.models.encoder import Encoder, language_head
from heedful.models.heads import (
    DenseSequenceHead,
    ReplacedTokenHead,
    SpanHead,
    SummaryHead,
    TokenHead,
)
from heedful.models.with_head import ModelWithHead

_IN_FILES = {
    "embeddings.project": "embeddings_project",
    "generator_lm_head.transform.dense": "generator_predictions.dense",
    "generator_lm_head.transform.LayerNorm": "generator_predictions.LayerNorm",
    "generator_lm_head.decoder.weight": "generator_lm_head.weight",
    "classifier.summary": "sequence_summary.summary",
}
"""Names of modules and weights in a file, where they differ from the model's."""


class ElectraModel(Encoder):
    """ELECTRA without a head; it has no pooler.

    Args:
        config: sizes and options.
    """

    config: ElectraConfig
    prefix = "electra"
    file_names = _IN_FILES

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config, add_pooling_layer=False)


class ElectraForPreTraining(ModelWithHead):
    """ELECTRA that detects replaced tokens: the discriminator."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = ReplacedTokenHead(config.hidden_size, config.hidden_act)
        super().__init__(ElectraModel(config), head, at="discriminator_predictions")

    forward = pretraining.detect_replaced


class ElectraForMaskedLM(ModelWithHead):
    """ELECTRA that predicts the tokens at masked positions: the generator."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = language_head(config, activation="gelu")
        super().__init__(ElectraModel(config), head, at="generator_lm_head")

    forward = forwards.masked_lm


class ElectraForCausalLM(ModelWithHead):
    """ELECTRA that predicts the next token, for a configuration with ``is_decoder``."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = language_head(config, activation="gelu")
        super().__init__(ElectraModel(config), head, at="generator_lm_head")

    forward = forwards.causal_lm
    generate = continuing.generate


class ElectraForSequenceClassification(ModelWithHead):
    """ELECTRA with a two-layer classifier or regression on the first token."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = DenseSequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
            activation="gelu",
        )
        super().__init__(ElectraModel(config), head, at="classifier")

    forward = forwards.classify


class ElectraForMultipleChoice(ModelWithHead):
    """ELECTRA that scores each choice; a softmax runs over the choices of an example.

    The score is computed from a summary of the choice, set by the options ``summary_...`` of the
    configuration.
    """

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = SummaryHead(
            config.hidden_size,
            1,
            kind=config.summary_type,
            project=config.summary_use_proj,
            activation=config.summary_activation,
            dropout=config.summary_last_dropout,
        )
        super().__init__(ElectraModel(config), head, at="classifier")

    forward = forwards.choose


class ElectraForTokenClassification(ModelWithHead):
    """ELECTRA with a linear classifier on every token."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.head_dropout)
        super().__init__(ElectraModel(config), head, at="classifier")

    forward = forwards.classify


class ElectraForQuestionAnswering(ModelWithHead):
    """ELECTRA that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = SpanHead(config.hidden_size, config.num_labels)
        super().__init__(ElectraModel(config), head, at="qa_outputs")

    forward = forwards.find_span
