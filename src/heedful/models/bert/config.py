"""Configuration of BERT, with the reference's key names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from heedful.errors import UserError
from heedful.files import read_json
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.positions import POSITIONS
from heedful.models.configs import (
    ReferenceConfig,
    check_booleans,
    check_multiple,
    check_name,
    check_numbers,
    check_sizes,
)
from heedful.models.pretrained import CONFIG
from heedful.models.stored_config import configuration

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@configuration
class BertConfig(ReferenceConfig):
    """Sizes and options of a BERT model. The defaults are those of BERT base, uncased.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "bert"
    FIXED: ClassVar[Mapping[str, Any]] = {
        "is_encoder_decoder": False,
        "cross_attention_hidden_size": None,
    }
    DROPOUTS: ClassVar[tuple[str, ...]] = (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
    )
    DEPTH: ClassVar[str] = "num_hidden_layers"
    POSITIONS: ClassVar[str] = "max_position_embeddings"
    MIN_TOKEN_TYPES: ClassVar[int] = 1
    """Smallest value of ``type_vocab_size``."""
    UNSUPPORTED_FIELDS: ClassVar[Mapping[str, Any]] = {}
    """Fields that the family's files lack, each with its only supported value."""

    vocab_size: int = 30522
    """Number of tokens in the vocabulary."""
    hidden_size: int = 768
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_hidden_layers: int = 12
    """Number of blocks."""
    num_attention_heads: int = 12
    """Number of attention heads per block."""
    intermediate_size: int = 3072
    """Inner width of a block's feed-forward layer."""
    hidden_act: str = "gelu"
    """Activation of the feed-forward layer."""
    hidden_dropout_prob: float = 0.1
    """Dropout of the embeddings and of the output of each sublayer, before the residual sum."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of the attention weights."""
    classifier_dropout: float | None = None
    """Dropout before a classifier; None means ``hidden_dropout_prob``."""
    max_position_embeddings: int = 512
    """Longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Number of token types."""
    initializer_range: float = 0.02
    """Standard deviation of newly initialised weights."""
    layer_norm_eps: float = 1e-12
    """Added to the variance by layer normalisation."""
    pad_token_id: int | None = 0
    """Id of the padding token, whose embedding is not trained; None if there is no such token."""
    position_embedding_type: str = "absolute"
    """One of ``positions.POSITIONS``. Either one vector for each position (Devlin et al. 2019), or
    one for each distance between two tokens. A distance's vector is multiplied with the query (Shaw
    et al. 2018), or with query and key (Huang et al. 2020)."""
    is_decoder: bool = False
    """Whether attention is causal: a token does not attend to later tokens."""
    add_cross_attention: bool = False
    """Whether the blocks of a decoder have cross-attention to an encoder."""
    use_cache: bool = True
    """Whether the reference returns a KV cache by default. Kept for compatibility with its files:
    in heedful a call must ask for the cache."""
    tie_word_embeddings: bool = True
    """Whether a language model's output layer shares the weights of the word embeddings."""

    def __post_init__(self) -> None:
        for name, value in self.UNSUPPORTED_FIELDS.items():
            if getattr(self, name) != value:
                has = f"{name} is {getattr(self, name)!r}"
                raise UserError(f"{has}; {self.MODEL_TYPE} supports only {value!r}")
        check_sizes(self, _SIZES, ("num_hidden_layers",))
        check_numbers(self, ("type_vocab_size",), int, low=self.MIN_TOKEN_TYPES, below=2**28)
        switches = ("is_decoder", "add_cross_attention", "use_cache", "tie_word_embeddings")
        check_booleans(self, switches)
        check_numbers(self, ("initializer_range", "layer_norm_eps"), float)
        check_numbers(self, _PROBABILITIES, float, below=1)
        check_numbers(self, ("classifier_dropout",), float, below=1, optional=True)
        check_numbers(self, ("pad_token_id",), int, below=self.vocab_size, optional=True)
        check_multiple(self, "hidden_size", "num_attention_heads")
        check_name(self, "hidden_act", ACTIVATIONS)
        check_name(self, "position_embedding_type", POSITIONS)
        if self.add_cross_attention and not self.is_decoder:
            raise UserError("add_cross_attention is true, which needs is_decoder to be true")
        self.complete(self.num_blocks, self.num_attention_heads)

    @property
    def head_dropout(self) -> float:
        """Dropout before a classifier."""
        rate = self.classifier_dropout
        return self.hidden_dropout_prob if rate is None else rate

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of the reference or of heedful.

        Args:
            path: the file. If it is a missing ``config.json``, ``bert_config.json`` in the same
                folder is read, the file name of Google's original BERT checkpoints.

        Raises:
            UserError: the file cannot be read, a key is unknown, or a value is not supported.
        """
        original = path.with_name("bert_config.json")
        if path.name == CONFIG and original.exists() and not path.exists():
            path = original
        return cls.from_dict(read_json(path), where=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``, for heedful and for the reference."""
        values = ReferenceConfig.to_dict(self)
        return {
            name: value for name, value in values.items() if name not in self.UNSUPPORTED_FIELDS
        }
