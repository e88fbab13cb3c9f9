"""ELECTRA (Clark et al. 2020): BERT's blocks, over embeddings that may be narrower.

Two models learn together: a generator, ``ElectraForMaskedLM``, fills masks, and a discriminator,
``ElectraForPreTraining``, says which tokens it replaced. What is fine-tuned is the discriminator.
"""

from heedful.models import forwards, pretraining
from heedful.models.electra.config import ElectraConfig
from heedful.models.electra.names import IN_FILES, PREFIX
from heedful.models.encoder import Encoder, language_head
from heedful.models.heads import DenseSequenceHead, ReplacedHead, SpanHead, SummaryHead, TokenHead
from heedful.models.with_head import WithHead


class ElectraModel(Encoder):
    """ELECTRA without a head; it has no pooler.

    Args:
        config: its sizes and options.
    """

    config: ElectraConfig
    prefix = PREFIX
    in_files = IN_FILES

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config, add_pooling_layer=False)


class ElectraForPreTraining(WithHead):
    """ELECTRA that tells replaced tokens from original ones: the discriminator."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = ReplacedHead(config.hidden_size, config.hidden_act)
        super().__init__(ElectraModel(config), head, at="discriminator_predictions")

    forward = pretraining.detect_replaced


class ElectraForMaskedLM(WithHead):
    """ELECTRA that says which tokens stand at masked positions: the generator."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = language_head(config, activation="gelu")
        super().__init__(ElectraModel(config), head, at="generator_lm_head")

    forward = forwards.predict_masked


class ElectraForCausalLM(WithHead):
    """ELECTRA that says which token comes next, for a configuration with ``is_decoder``."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = language_head(config, activation="gelu")
        super().__init__(ElectraModel(config), head, at="generator_lm_head")

    forward = forwards.predict_next
    generate = forwards.generate


class ElectraForSequenceClassification(WithHead):
    """ELECTRA with a classifier, or regression, of two layers on the first token."""

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


class ElectraForMultipleChoice(WithHead):
    """ELECTRA that gives each choice one score; the choices of an item share a softmax.

    What the score is made from is a summary of the choice, as the options ``summary_...`` of the
    configuration say.
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


class ElectraForTokenClassification(WithHead):
    """ELECTRA with a linear classifier of every token."""

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.head_dropout)
        super().__init__(ElectraModel(config), head, at="classifier")

    forward = forwards.classify


class ElectraForQuestionAnswering(WithHead):
    """ELECTRA that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """

    electra: ElectraModel

    def __init__(self, config: ElectraConfig) -> None:
        head = SpanHead(config.hidden_size, config.num_labels)
        super().__init__(ElectraModel(config), head, at="qa_outputs")

    forward = forwards.find_span
