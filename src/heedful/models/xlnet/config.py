"""Configuration of XLNet, with the reference's key names."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

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
from heedful.models.heads import SUMMARIES
from heedful.models.stored_config import configuration

_ATTENTION = ("bi", "uni")

USUAL_POSITIONS = 512
"""Sequence length, in tokens, with which the published models were trained."""


@configuration
class XLNetConfig(ReferenceConfig):
    """Sizes and options of an XLNet model. The defaults are those of the large one.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "xlnet"
    FIXED: ClassVar[Mapping[str, Any]] = {"is_encoder_decoder": False, "is_decoder": False}
    UNUSED: ClassVar[Collection[str]] = (
        *("use_cache", "cross_attention_hidden_size", "add_cross_attention", "use_mems"),
        "d_head",
    )
    """Keys of the reference's files without effect."""
    DROPOUTS: ClassVar[tuple[str, ...]] = ("dropout", "summary_last_dropout")
    DEPTH: ClassVar[str] = "n_layer"
    POSITIONS: ClassVar[str] = "mem_len"
    """Field that takes the sequence length of a new model. The model accepts any number of tokens,
    but this field limits its memory."""

    vocab_size: int = 32000
    """Number of tokens in the vocabulary."""
    d_model: int = 1024
    """Width of the model; an even multiple of ``n_head``."""
    n_layer: int = 24
    """Number of blocks."""
    n_head: int = 16
    """Number of attention heads per block."""
    d_inner: int = 4096
    """Inner width of a block's feed-forward layer."""
    ff_activation: str = "gelu"
    """Activation of the feed-forward layer."""
    untie_r: bool = True
    """Whether each block of the original checkpoints has its own biases. In files of this format
    each block always has its own."""
    attn_type: str = "bi"
    """``bi`` for bidirectional attention, ``uni`` for causal attention."""
    initializer_range: float = 0.02
    """Standard deviation of newly initialised weights."""
    layer_norm_eps: float = 1e-12
    """Added to the variance by layer normalisation."""
    dropout: float = 0.1
    """Dropout everywhere except after the summary."""
    mem_len: int | None = 512
    """Number of most recent tokens kept in memory; None or 0 for all."""
    reuse_len: int | None = None
    """Number of first tokens of a segment that may enter the memory; None or 0 for all."""
    use_mems_eval: bool = True
    """Whether the reference returns its memory by default at inference. Kept for compatibility with
    its files: in heedful a call must ask for the memory."""
    use_mems_train: bool = False
    """Whether the reference returns its memory by default in training; see ``use_mems_eval``."""
    bi_data: bool = False
    """Whether the second half of a batch uses reversed distances, as for reversed texts."""
    clamp_len: int = -1
    """Largest distance; longer distances are clamped to it. No clamping if it is not above 0."""
    same_length: bool = False
    """Whether, with ``uni``, each token attends to as many tokens as the first token does."""
    summary_type: str = "last"
    """Summary of a text or a choice: one of ``heads.SUMMARIES``."""
    summary_use_proj: bool = True
    """Whether a linear layer projects the summary."""
    summary_activation: str | None = "tanh"
    """Activation after the projection; None for no activation."""
    summary_last_dropout: float = 0.1
    """Dropout after the activation."""
    start_n_top: int = 5
    """Number of top answer starts that ``XLNetForQuestionAnswering`` considers."""
    end_n_top: int = 5
    """Number of top answer ends that it returns for each start."""
    pad_token_id: int | None = 5
    """Id of the padding token. Its embedding is trained like any other."""
    bos_token_id: int | None = 1
    """Id of the beginning-of-text token; the tokenizer does not add it."""
    eos_token_id: int | None = 2
    """Id of the end-of-text token; the tokenizer does not add it."""
    tie_word_embeddings: bool = True
    """Whether a language model's output layer shares the weights of the word embeddings."""

    hidden_size = Alias[int]("d_model")
    num_hidden_layers = Alias[int]("n_layer")
    num_attention_heads = Alias[int]("n_head")
    intermediate_size = Alias[int]("d_inner")
    hidden_act = Alias[str]("ff_activation")
    hidden_dropout_prob = Alias[float]("dropout")
    attention_probs_dropout_prob = Alias[float]("dropout")

    def __post_init__(self) -> None:
        check_sizes(self, ("vocab_size", "d_model", "n_head", "d_inner"), ("n_layer",))
        check_sizes(self, ("start_n_top", "end_n_top"))
        check_numbers(self, ("clamp_len",), int, low=-1)
        check_numbers(self, ("mem_len", "reuse_len"), int, optional=True)
        switches = ("untie_r", "use_mems_eval", "use_mems_train", "bi_data", "same_length")
        check_booleans(self, (*switches, "summary_use_proj", "tie_word_embeddings"))
        check_numbers(self, ("initializer_range", "layer_norm_eps"), float)
        check_numbers(self, self.DROPOUTS, float, below=1)
        check_numbers(self, ("pad_token_id",), int, below=self.vocab_size, optional=True)
        check_multiple(self, "d_model", "n_head")
        if self.d_model % 2:
            raise UserError(f"d_model is {self.d_model}; it must be even, for sines and cosines")
        check_name(self, "ff_activation", ACTIVATIONS)
        check_name(self, "attn_type", _ATTENTION)
        check_name(self, "summary_type", SUMMARIES)
        if self.summary_activation:
            check_name(self, "summary_activation", ACTIVATIONS)
        self.complete(self.n_layer, self.n_head)

    @property
    def max_position_embeddings(self) -> int:
        """Safeguard only: distances are computed, so a sequence may have any length."""
        return 2**16

    @property
    def type_vocab_size(self) -> int:
        """Token types: two texts, class token and padding. Only equality of two types matters."""
        return 4

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build a configuration from the keys and values of a ``config.json``.

        Args:
            values: see ``ReferenceConfig``; ``d_head`` must equal ``d_model`` / ``n_head``.
            where: name of the source, for error messages.
        """
        config = super().from_dict(values, where=where)
        width = config.d_model // config.n_head
        if values.get("d_head", width) != width:
            raise UserError(
                f"{where}: d_head is {values['d_head']!r}; d_model {config.d_model} and n_head "
                f"{config.n_head} make it {width}"
            )
        return config
