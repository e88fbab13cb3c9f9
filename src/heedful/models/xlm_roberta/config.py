"""Configuration of XLM-RoBERTa, with the reference's key names."""

from typing import ClassVar

from heedful.models.roberta.config import RobertaConfig
from heedful.models.stored_config import configuration


@configuration
class XLMRobertaConfig(RobertaConfig):
    """Sizes and options of an XLM-RoBERTa model: those of RoBERTa.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "xlm-roberta"

    vocab_size: int = 30522
    """Number of tokens in the vocabulary; the published models have 250002."""
