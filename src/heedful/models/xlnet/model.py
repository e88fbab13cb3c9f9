"""XLNet (Yang et al. 2019) with task heads."""

from typing import ClassVar

from heedful.models.heads import SpanHead, SummaryHead, TokenHead
from heedful.models.language_heads import LanguageHead
from heedful.models.with_head import ModelWithHead
from heedful.models.xlnet import forwards, names
from heedful.models.xlnet.body import XLNetModel as XLNetModel
from heedful.models.xlnet.config import XLNetConfig
from heedful.models.xlnet.pointer import PointerHead


class XLNetLMHeadModel(ModelWithHead):
    """XLNet with a permutation language model head, which predicts the target tokens."""

    transformer: XLNetModel
    head_in_files: ClassVar = names.LANGUAGE_HEAD

    def __init__(self, config: XLNetConfig) -> None:
        head = LanguageHead(
            None,
            piece_width=config.d_model,
            vocab_size=config.vocab_size,
            tied=config.tie_word_embeddings,
        )
        super().__init__(XLNetModel(config), head, at="lm_loss")

    forward = forwards.predict_permuted


def _summary(config: XLNetConfig, outputs: int) -> SummaryHead:
    return SummaryHead(
        config.d_model,
        outputs,
        kind=config.summary_type,
        project=config.summary_use_proj,
        activation=config.summary_activation,
        dropout=config.summary_last_dropout,
        problem_type=config.problem_type,
    )


class XLNetForSequenceClassification(ModelWithHead):
    """XLNet with a classifier or regression on a summary of the text, usually its last token."""

    transformer: XLNetModel
    head_in_files: ClassVar = names.SUMMARY_HEAD

    def __init__(self, config: XLNetConfig) -> None:
        head = _summary(config, config.num_labels)
        super().__init__(XLNetModel(config), head, at="logits_proj")

    forward = forwards.classify


class XLNetForMultipleChoice(ModelWithHead):
    """XLNet that scores each choice; a softmax runs over the choices of an example."""

    transformer: XLNetModel
    head_in_files: ClassVar = names.SUMMARY_HEAD

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__(XLNetModel(config), _summary(config, 1), at="logits_proj")

    forward = forwards.choose


class XLNetForTokenClassification(ModelWithHead):
    """XLNet with a linear classifier on every token."""

    transformer: XLNetModel

    def __init__(self, config: XLNetConfig) -> None:
        head = TokenHead(config.d_model, config.num_labels, dropout=0.0)
        super().__init__(XLNetModel(config), head, at="classifier")

    forward = forwards.classify


class XLNetForQuestionAnsweringSimple(ModelWithHead):
    """XLNet that predicts the start and end of an answer span, each independently.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    transformer: XLNetModel

    def __init__(self, config: XLNetConfig) -> None:
        head = SpanHead(config.d_model, config.num_labels)
        super().__init__(XLNetModel(config), head, at="qa_outputs")

    forward = forwards.find_span


class XLNetForQuestionAnswering(ModelWithHead):
    """XLNet with a pointer head: the prediction of an answer's end depends on its start.

    It also predicts whether there is an answer.
    """

    transformer: XLNetModel
    head_in_files: ClassVar = names.POINTER

    def __init__(self, config: XLNetConfig) -> None:
        head = PointerHead(config.d_model, config.layer_norm_eps)
        super().__init__(XLNetModel(config), head, at="pointer")

    forward = forwards.point_at_answer
