"""Configuration of BigBird, with the reference's key names."""

from typing import ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_booleans, check_name, check_numbers, check_sizes
from heedful.models.stored_config import configuration

ATTENTIONS = ("block_sparse", "original_full")
"""Attention to long texts: sparse, by blocks of tokens, or full."""


@configuration
class BigBirdConfig(BertConfig):
    """Sizes and options of a BigBird model. The defaults are those of BigBird base.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "big_bird"

    vocab_size: int = 50358
    """Number of tokens in the vocabulary."""
    hidden_act: str = "gelu_new"
    """Activation of the feed-forward layer, and of the text classifier."""
    max_position_embeddings: int = 4096
    """Longest sequence, in tokens."""
    sep_token_id: int = 66
    """Id of the separator token; the first one ends the question."""
    attention_type: str = "block_sparse"
    """One of ``ATTENTIONS``. Texts of up to 5 + 2 * ``num_random_blocks`` blocks always get full
    attention."""
    block_size: int = 64
    """Number of tokens in a block."""
    num_random_blocks: int = 3
    """Number of random blocks that each block attends to in training, besides its neighbours and
    the first and last block."""
    use_bias: bool = True
    """Whether the query, key and value projections have biases."""
    rescale_embeddings: bool = False
    """Whether word embeddings are multiplied by the square root of ``hidden_size``."""

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
        check_booleans(self, ("use_bias", "rescale_embeddings"))
