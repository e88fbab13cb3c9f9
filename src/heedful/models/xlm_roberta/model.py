"""XLM-RoBERTa (Conneau et al. 2020): RoBERTa with a vocabulary of 100 languages."""

from heedful.models.roberta.model import (
    RobertaForCausalLM,
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)


class XLMRobertaModel(RobertaModel):
    """XLM-RoBERTa without a head; see ``RobertaModel``."""


class XLMRobertaForSequenceClassification(RobertaForSequenceClassification):
    """XLM-RoBERTa with a two-layer classifier or regression on the first token."""


class XLMRobertaForMultipleChoice(RobertaForMultipleChoice):
    """XLM-RoBERTa that scores each choice; a softmax runs over the choices of an example."""


class XLMRobertaForTokenClassification(RobertaForTokenClassification):
    """XLM-RoBERTa with a linear classifier on every token."""


class XLMRobertaForQuestionAnswering(RobertaForQuestionAnswering):
    """XLM-RoBERTa that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """


class XLMRobertaForMaskedLM(RobertaForMaskedLM):
    """XLM-RoBERTa that predicts the tokens at masked positions."""


class XLMRobertaForCausalLM(RobertaForCausalLM):
    """XLM-RoBERTa that predicts the next token, for a configuration with ``is_decoder``."""
