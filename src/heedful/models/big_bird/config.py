"""What a BigBird is made of, under the reference's key names."""

from dataclasses import dataclass
from typing import ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_name, check_numbers, check_sizes, check_switches

ATTENTIONS = ("block_sparse", "original_full")
"""How long texts are read: by blocks, or every token by every token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BigBirdConfig(BertConfig):
    """The sizes and options of a BigBird. The defaults are those of BigBird base.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "big_bird"

    vocab_size: int = 50358
    """Number of pieces in the vocabulary."""
    hidden_act: str = "gelu_new"
    """Activation of the feed-forward half, and of the head that decides about texts."""
    max_position_embeddings: int = 4096
    """Longest sequence, in tokens."""
    sep_token_id: int = 66
    """Id of the piece that ends a text: a question ends at the first."""
    attention_type: str = "block_sparse"
    """One of ``ATTENTIONS``. Up to 5 + 2 * ``num_random_blocks`` blocks both are the same."""
    block_size: int = 64
    """Number of tokens in a block."""
    num_random_blocks: int = 3
    """How many blocks each block reads in training besides its neighbours and the ends."""
    use_bias: bool = True
    """Whether queries, keys and values have biases."""
    rescale_embeddings: bool = False
    """Whether word vectors are multiplied by the root of ``hidden_size``."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.position_embedding_type != "absolute":
            raise UserError(
                f"position_embedding_type is {self.position_embedding_type!r}; a BigBird "
                "supports only 'absolute'"
            )
        check_name(self, "attention_type", ATTENTIONS)
        check_sizes(self, ("block_size",))
        check_numbers(self, ("num_random_blocks",), int, below=2**16)
        check_numbers(self, ("sep_token_id",), int)
        check_switches(self, ("use_bias", "rescale_embeddings"))
