"""The properties of an encoder's configuration, independent of the reference's key names."""

from typing import ClassVar, Generic, Protocol, TypeVar

T = TypeVar("T")


class BlocksConfig(Protocol):
    """Sizes from which ``encoder.make_stack`` makes blocks; each is a field or a property."""

    DEPTH: ClassVar[str]
    """Name of the field with the number of blocks."""

    @property
    def hidden_size(self) -> int:
        """Width of the model."""

    @property
    def num_hidden_layers(self) -> int:
        """Number of blocks."""

    @property
    def num_blocks(self) -> int:
        """Number of blocks with distinct weights."""

    @property
    def num_attention_heads(self) -> int:
        """Number of attention heads per block, including pruned heads."""

    @property
    def intermediate_size(self) -> int:
        """Inner width of the feed-forward layer."""

    @property
    def hidden_act(self) -> str:
        """Activation of the feed-forward layer."""

    @property
    def hidden_dropout_prob(self) -> float:
        """Dropout of the embeddings and of each sublayer's output."""

    @property
    def attention_output_dropout(self) -> float:
        """Dropout of the attention sublayer's output."""

    @property
    def attention_probs_dropout_prob(self) -> float:
        """Dropout of the attention weights."""

    @property
    def max_position_embeddings(self) -> int:
        """Number of positions."""

    @property
    def position_embedding_type(self) -> str:
        """One of ``positions.POSITIONS``."""

    @property
    def initializer_range(self) -> float:
        """Standard deviation of fresh weights."""

    @property
    def layer_norm_eps(self) -> float:
        """Added to the variance by layer normalisation."""

    @property
    def add_cross_attention(self) -> bool:
        """Whether the blocks have cross-attention to an encoder."""

    @property
    def chunk_size_feed_forward(self) -> int:
        """Number of tokens per chunk of the feed-forward layers; 0 for one chunk."""

    @property
    def pruned_heads(self) -> dict[int, list[int]]:
        """Pruned heads, by block index."""


class EncoderConfig(BlocksConfig, Protocol):
    """Sizes from which ``encoder.Encoder`` is built."""

    POSITIONS: ClassVar[str]
    """Name of the field with the number of positions."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings."""

    @property
    def padding_position(self) -> int | None:
        """Position id of all padding, after which positions start; None if padding has none."""

    @property
    def type_vocab_size(self) -> int:
        """Number of token types; 0 if there are none."""

    @property
    def pad_token_id(self) -> int | None:
        """Id of the padding token, whose vector is not trained; None if no such token exists."""

    @property
    def is_decoder(self) -> bool:
        """Whether attention is causal."""

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether a language model's output is tied to the word embeddings."""


class Alias(Generic[T]):
    """A property that has the value of a field, under the name in ``EncoderConfig``.

    Args:
        field: name of the field.
    """

    def __init__(self, field: str) -> None:
        self.field = field

    def __get__(self, config: object, kind: type) -> T:
        value: T = getattr(config, self.field)
        return value


def usable_positions(config: EncoderConfig) -> int:
    """Return the maximum sequence length; positions up to the padding's own are unusable."""
    padding = config.padding_position
    return config.max_position_embeddings - (0 if padding is None else padding + 1)
