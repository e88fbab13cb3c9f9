"""Configuration of DistilBERT, with the reference's key names."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.configs import (
    ReferenceConfig,
    check_booleans,
    check_multiple,
    check_name,
    check_numbers,
    check_sizes,
)
from heedful.models.encoder_config import Alias
from heedful.models.stored_config import configuration

_DROPOUTS = ("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout")


@configuration
class DistilBertConfig(ReferenceConfig):
    """Sizes and options of a DistilBERT model. The defaults are those of DistilBERT base, uncased.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "distilbert"
    FIXED: ClassVar[Mapping[str, Any]] = {
        "is_encoder_decoder": False,
        "is_decoder": False,
        "add_cross_attention": False,
        "cross_attention_hidden_size": None,
    }
    UNUSED: ClassVar[Collection[str]] = ("tie_weights_",)
    """Keys of the reference's oldest files, which the reference ignores, too."""
    DROPOUTS: ClassVar[tuple[str, ...]] = _DROPOUTS
    DEPTH: ClassVar[str] = "n_layers"
    POSITIONS: ClassVar[str] = "max_position_embeddings"

    vocab_size: int = 30522
    """Number of tokens in the vocabulary."""
    max_position_embeddings: int = 512
    """Longest sequence, in tokens."""
    sinusoidal_pos_embds: bool = False
    """Whether position embeddings are sinusoidal and not trained, with sines at even indices and
    cosines at odd indices (Vaswani et al. 2017, section 3.5)."""
    n_layers: int = 6
    """Number of blocks."""
    n_heads: int = 12
    """Number of attention heads per block."""
    dim: int = 768
    """Width of the model; a multiple of ``n_heads``."""
    hidden_dim: int = 3072
    """Inner width of a block's feed-forward layer."""
    dropout: float = 0.1
    """Dropout of the embeddings, in a block's feed-forward layer, and before a token classifier."""
    attention_dropout: float = 0.1
    """Dropout of the attention weights."""
    activation: str = "gelu"
    """Activation of the feed-forward layer."""
    qa_dropout: float = 0.1
    """Dropout before the question answering head."""
    seq_classif_dropout: float = 0.2
    """Dropout before the last layer of a head for text classification or multiple choice."""
    initializer_range: float = 0.02
    """Standard deviation of newly initialised weights."""
    pad_token_id: int | None = 0
    """Id of the padding token, whose embedding is not trained; None if there is no such token."""
    tie_word_embeddings: bool = True
    """Whether a language model's output layer shares the weights of the word embeddings."""

    hidden_size = Alias[int]("dim")
    num_hidden_layers = Alias[int]("n_layers")
    num_attention_heads = Alias[int]("n_heads")
    intermediate_size = Alias[int]("hidden_dim")
    hidden_act = Alias[str]("activation")
    hidden_dropout_prob = Alias[float]("dropout")
    attention_probs_dropout_prob = Alias[float]("attention_dropout")

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "max_position_embeddings", "n_heads", "dim", "hidden_dim")
        check_sizes(self, sizes, ("n_layers",))
        check_booleans(self, ("sinusoidal_pos_embds", "tie_word_embeddings"))
        check_numbers(self, ("initializer_range",), float)
        check_numbers(self, _DROPOUTS, float, below=1)
        check_numbers(self, ("pad_token_id",), int, below=self.vocab_size, optional=True)
        check_multiple(self, "dim", "n_heads")
        if self.sinusoidal_pos_embds and self.dim % 2:
            raise UserError(f"dim is {self.dim}; with sinusoidal_pos_embds it must be even")
        check_name(self, "activation", ACTIVATIONS)
        self.complete(self.n_layers, self.n_heads)

    @property
    def attention_output_dropout(self) -> float:
        """Always 0: the output of attention has no dropout, unlike in BERT."""
        return 0.0

    @property
    def layer_norm_eps(self) -> float:
        """Always the same value, in every DistilBERT."""
        return 1e-12
