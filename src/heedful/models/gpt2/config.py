"""Configuration of GPT-2, with the reference's key names."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

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
from heedful.models.heads import SUMMARIES
from heedful.models.stored_config import configuration

_SWITCHES = (
    *("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
    *("add_cross_attention", "use_cache", "tie_word_embeddings"),
    *("summary_use_proj", "summary_proj_to_labels"),
)

_DROPOUTS = ("embd_pdrop", "resid_pdrop", "attn_pdrop", "classifier_dropout")


@configuration
class GPT2Config(ReferenceConfig):
    """Sizes and options of a GPT-2 model. The defaults are those of the smallest published one.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "gpt2"
    FIXED: ClassVar[Mapping[str, Any]] = {
        "is_encoder_decoder": False,
        "cross_attention_hidden_size": None,
    }
    UNUSED: ClassVar[Collection[str]] = {"n_ctx", "is_decoder"}
    """Keys without effect: ``n_ctx`` repeats ``n_positions``, and ``is_decoder`` is always true."""
    DROPOUTS: ClassVar[tuple[str, ...]] = _DROPOUTS
    DEPTH: ClassVar[str] = "n_layer"
    POSITIONS: ClassVar[str] = "n_positions"

    vocab_size: int = 50257
    """Number of tokens in the vocabulary."""
    n_positions: int = 1024
    """Longest sequence, in tokens."""
    n_embd: int = 768
    """Width of the model; a multiple of ``n_head``."""
    n_layer: int = 12
    """Number of blocks."""
    n_head: int = 12
    """Number of attention heads per block."""
    n_inner: int | None = None
    """Inner width of a block's feed-forward layer; None means 4 times ``n_embd``."""
    activation_function: str = "gelu_new"
    """Activation of the feed-forward layer."""
    embd_pdrop: float = 0.1
    """Dropout of the embeddings."""
    resid_pdrop: float = 0.1
    """Dropout of the output of each sublayer, before the residual sum."""
    attn_pdrop: float = 0.1
    """Dropout of the attention weights."""
    classifier_dropout: float | None = None
    """Dropout before a token classifier; None means 0.1."""
    layer_norm_epsilon: float = 1e-5
    """Added to the variance by layer normalisation."""
    initializer_range: float = 0.02
    """Standard deviation of newly initialised weights."""
    scale_attn_weights: bool = True
    """Whether attention scores are divided by the square root of the head width."""
    scale_attn_by_inverse_layer_idx: bool = False
    """Whether the attention scores of block i, counted from 1, are also divided by i."""
    reorder_and_upcast_attn: bool = False
    """Whether the reference computes attention scores in float32 in half-precision models. Kept for
    compatibility with its files: heedful always accumulates sums in float32."""
    add_cross_attention: bool = False
    """Whether the blocks have cross-attention to an encoder."""
    use_cache: bool = True
    """Whether the reference returns a KV cache by default. Kept for compatibility with its files:
    in heedful a call must ask for the cache."""
    summary_type: str = "cls_index"
    """Hidden state that represents a choice in the double-heads model: the last token ("last"), the
    first token ("first"), the mean of all tokens ("mean"), or the token given in the call, else the
    last ("cls_index")."""
    summary_use_proj: bool = True
    """Whether a linear layer projects that hidden state."""
    summary_activation: str | None = None
    """Activation after that layer; None for no activation."""
    summary_proj_to_labels: bool = True
    """Whether the layer projects to a single logit rather than to a vector."""
    summary_first_dropout: float = 0.1
    """Dropout before the layer."""
    bos_token_id: int | None = 50256
    """Id of the beginning-of-text token, from which the reference's search starts."""
    eos_token_id: int | None = 50256
    """Id of the end-of-text token."""
    pad_token_id: int | None = None
    """Id of the padding token. Its embedding is trained, since it is often also the end-of-text
    token."""
    tie_word_embeddings: bool = True
    """Whether a language model's output layer shares the weights of the word embeddings."""

    max_position_embeddings = Alias[int]("n_positions")
    hidden_size = Alias[int]("n_embd")
    num_hidden_layers = Alias[int]("n_layer")
    num_attention_heads = Alias[int]("n_head")
    hidden_act = Alias[str]("activation_function")
    hidden_dropout_prob = Alias[float]("resid_pdrop")
    attention_probs_dropout_prob = Alias[float]("attn_pdrop")
    layer_norm_eps = Alias[float]("layer_norm_epsilon")

    def __post_init__(self) -> None:
        check_sizes(self, ("vocab_size", "n_positions", "n_embd", "n_head"), ("n_layer",))
        if self.n_inner is not None:
            check_sizes(self, ("n_inner",))
        check_booleans(self, _SWITCHES)
        check_numbers(self, ("initializer_range", "layer_norm_epsilon"), float)
        dropouts = ("embd_pdrop", "resid_pdrop", "attn_pdrop", "summary_first_dropout")
        check_numbers(self, dropouts, float, below=1)
        check_numbers(self, ("classifier_dropout",), float, below=1, optional=True)
        check_numbers(self, ("pad_token_id",), int, below=self.vocab_size, optional=True)
        check_multiple(self, "n_embd", "n_head")
        check_name(self, "activation_function", ACTIVATIONS)
        check_name(self, "summary_type", SUMMARIES)
        if self.summary_activation:
            check_name(self, "summary_activation", ACTIVATIONS)
        self.complete(self.n_layer, self.n_head)

    @property
    def intermediate_size(self) -> int:
        """``n_inner``, or its default."""
        return 4 * self.n_embd if self.n_inner is None else self.n_inner

    @property
    def head_dropout(self) -> float:
        """Dropout before a token classifier."""
        return 0.1 if self.classifier_dropout is None else self.classifier_dropout

    @property
    def is_decoder(self) -> bool:
        """Always True: attention is causal."""
        return True

    @property
    def score_factors(self) -> list[float]:
        """Factor of each block on its scaled attention scores."""
        scale = 1.0 if self.scale_attn_weights else (self.n_embd / self.n_head) ** 0.5
        blocks = range(1, self.n_layer + 1)
        return [scale / i if self.scale_attn_by_inverse_layer_idx else scale for i in blocks]
