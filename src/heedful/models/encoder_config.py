"""What the configuration of an encoder says, whatever the reference calls it in its files."""

from typing import ClassVar, Protocol


class BlocksConfig(Protocol):
    """The numbers that ``encoder.stack`` makes blocks of, each a field or a property."""

    DEPTH: ClassVar[str]
    """The field that has the number of blocks."""

    @property
    def hidden_size(self) -> int:
        """Width of the model."""

    @property
    def num_hidden_layers(self) -> int:
        """Number of blocks."""

    @property
    def num_blocks(self) -> int:
        """Number of blocks with weights of their own."""

    @property
    def num_attention_heads(self) -> int:
        """Number of attention heads in a block, those that were pruned included."""

    @property
    def intermediate_size(self) -> int:
        """Width inside the feed-forward half of a block."""

    @property
    def hidden_act(self) -> str:
        """Activation of the feed-forward half."""

    @property
    def hidden_dropout_prob(self) -> float:
        """Dropout of the embeddings and of what each half of a block adds."""

    @property
    def attention_output_dropout(self) -> float:
        """Dropout of what the attention half of a block adds."""

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
        """Whether the blocks can attend to an encoder."""

    @property
    def chunk_size_feed_forward(self) -> int:
        """How many tokens go through the feed-forward parts at once; 0 for all."""

    @property
    def pruned_heads(self) -> dict[int, list[int]]:
        """The heads that were taken out, by the number of the block."""


class EncoderConfig(BlocksConfig, Protocol):
    """The numbers that ``encoder.Encoder`` is made of."""

    POSITIONS: ClassVar[str]
    """The field that has the number of positions."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""

    @property
    def embedding_width(self) -> int:
        """Width of the tables of embeddings."""

    @property
    def padding_position(self) -> int | None:
        """The position of padding, after which positions start; None if it has none of its own."""

    @property
    def type_vocab_size(self) -> int:
        """Number of token types; 0 if there are none."""

    @property
    def pad_token_id(self) -> int | None:
        """Id of the padding token, whose vector is not trained; None if there is none."""

    @property
    def is_decoder(self) -> bool:
        """Whether a token may attend to none after it."""

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether a language model's output uses the word embeddings."""


def usable_positions(config: EncoderConfig) -> int:
    """Return the most tokens that are read at once: none stands at padding's or one before."""
    padding = config.padding_position
    return config.max_position_embeddings - (0 if padding is None else padding + 1)
