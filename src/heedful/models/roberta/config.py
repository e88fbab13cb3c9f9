"""Configuration of RoBERTa, with the reference's key names."""

from typing import ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.stored_config import configuration


@configuration
class RobertaConfig(BertConfig):
    """Sizes and options of a RoBERTa model: those of BERT, with other defaults for the token ids.

    The first token has position ``pad_token_id`` + 1, so ``max_position_embeddings`` exceeds the
    maximum sequence length by ``pad_token_id`` + 1.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "roberta"

    vocab_size: int = 50265
    """Number of tokens in the vocabulary."""
    pad_token_id: int | None = 1
    """Id of the padding token, whose embedding is not trained, and the position of padding."""
    bos_token_id: int | None = 0
    """Id of the beginning-of-text token."""
    eos_token_id: int | None = 2
    """Id of the end-of-text token."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.pad_token_id is None:
            raise UserError("pad_token_id is None; positions are counted from it")
        if self.max_position_embeddings < self.pad_token_id + 2:
            raise UserError(
                f"max_position_embeddings is {self.max_position_embeddings}; "
                f"with pad_token_id {self.pad_token_id} it must be at least {self.pad_token_id + 2}"
            )

    @classmethod
    def positions_for(cls, tokens: int, pad_token_id: int) -> int:
        """Return the ``max_position_embeddings`` needed for sequences of ``tokens`` tokens."""
        return tokens + pad_token_id + 1

    @property
    def padding_position(self) -> int:
        """Position of padding, whose embedding is not trained."""
        assert self.pad_token_id is not None
        return self.pad_token_id
