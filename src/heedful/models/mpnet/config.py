"""Configuration of MPNet, with the reference's key names."""

from collections.abc import Mapping
from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_sizes
from heedful.models.stored_config import configuration

BUCKETS = 32
"""Number of distance buckets."""

PADDING = 1
"""Id of the padding token, and the position of padding. Files store it, but it is always 1."""


@configuration
class MPNetConfig(BertConfig):
    """Sizes and options of an MPNet model. The defaults are those of MPNet base.

    The first token has position 2, so ``max_position_embeddings`` exceeds the maximum sequence
    length by 2.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "mpnet"
    UNSUPPORTED_FIELDS: ClassVar[Mapping[str, Any]] = {
        "type_vocab_size": 0,
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "use_cache": True,
        "classifier_dropout": None,
    }
    DROPOUTS: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    MIN_TOKEN_TYPES: ClassVar[int] = 0

    vocab_size: int = 30527
    """Number of tokens in the vocabulary."""
    type_vocab_size: int = 0
    """Number of token types; always 0."""
    pad_token_id: int | None = PADDING
    """Id of the padding token, whose embedding is not trained; always 1."""
    bos_token_id: int | None = 0
    """Id of the beginning-of-text token."""
    eos_token_id: int | None = 2
    """Id of the end-of-text token."""
    relative_attention_num_buckets: int = BUCKETS
    """Number of distance biases per head, at least 32. Only 32 are used, as in the reference."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.pad_token_id != PADDING:
            raise UserError(
                f"pad_token_id is {self.pad_token_id}; an MPNet counts positions from its padding "
                f"token, which has the id {PADDING}"
            )
        if self.max_position_embeddings < PADDING + 2:
            raise UserError(
                f"max_position_embeddings is {self.max_position_embeddings}; "
                f"it must be at least {PADDING + 2}: the first token is at position 2"
            )
        check_sizes(self, ("relative_attention_num_buckets",))
        if self.relative_attention_num_buckets < BUCKETS:
            raise UserError(
                f"relative_attention_num_buckets is {self.relative_attention_num_buckets}; "
                f"it must be at least {BUCKETS}, the number of ranges of distances"
            )

    @classmethod
    def positions_for(cls, tokens: int, pad_token_id: int) -> int:
        """Return the ``max_position_embeddings`` needed for sequences of ``tokens`` tokens."""
        return tokens + PADDING + 1

    @property
    def padding_position(self) -> int:
        """Position of padding, whose embedding is not trained."""
        return PADDING
