"""XLM-RoBERTa (Conneau et al. 2020): RoBERTa under other names, with words of 100 languages."""

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
    """XLM-RoBERTa with a classifier, or regression, of two layers on the first token."""


class XLMRobertaForMultipleChoice(RobertaForMultipleChoice):
    """XLM-RoBERTa that gives each choice one score; the choices of an item share a softmax."""


class XLMRobertaForTokenClassification(RobertaForTokenClassification):
    """XLM-RoBERTa with a linear classifier of every token."""


class XLMRobertaForQuestionAnswering(RobertaForQuestionAnswering):
    """XLM-RoBERTa that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """


class XLMRobertaForMaskedLM(RobertaForMaskedLM):
    """XLM-RoBERTa that says which tokens stand at masked positions."""


class XLMRobertaForCausalLM(RobertaForCausalLM):
    """XLM-RoBERTa that says which token comes next, for a configuration with ``is_decoder``."""
