"""What an MPNet is made of, under the reference's key names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_sizes

BUCKETS = 32
"""How many ranges of distances there are."""

PADDING = 1
"""The id of the padding token, and the position of padding: files say it, but it is always this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MPNetConfig(BertConfig):
    """The sizes and options of an MPNet. The defaults are those of MPNet base.

    The first token stands at position 2, so ``max_position_embeddings`` is larger than the longest
    sequence by 2.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "mpnet"
    ABSENT: ClassVar[Mapping[str, Any]] = {
        "type_vocab_size": 0,
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "use_cache": True,
        "classifier_dropout": None,
    }
    DROPOUTS: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    LEAST_TYPES: ClassVar[int] = 0

    vocab_size: int = 30527
    """Number of pieces in the vocabulary."""
    type_vocab_size: int = 0
    """Number of token types: there are none."""
    pad_token_id: int | None = PADDING
    """Id of the padding piece, whose vector is not trained: 1."""
    bos_token_id: int | None = 0
    """Id of the piece that begins a text."""
    eos_token_id: int | None = 2
    """Id of the piece that ends one."""
    relative_attention_num_buckets: int = BUCKETS
    """How many numbers each head has for ranges of distances. As in the reference 32 are used,
    however many there are."""

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
                f"it must be at least {PADDING + 2}: the first token stands at position 2"
            )
        check_sizes(self, ("relative_attention_num_buckets",))
        if self.relative_attention_num_buckets < BUCKETS:
            raise UserError(
                f"relative_attention_num_buckets is {self.relative_attention_num_buckets}; "
                f"it must be at least {BUCKETS}, the number of ranges of distances"
            )

    @classmethod
    def positions_for(cls, tokens: int, pad_token_id: int) -> int:
        """Return the ``max_position_embeddings`` with which so many tokens are read at once."""
        return tokens + PADDING + 1

    @property
    def padding_position(self) -> int:
        """The position of padding, which is not trained."""
        return PADDING
