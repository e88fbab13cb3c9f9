"""Configuration of ALBERT, with the reference's key names."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_numbers, check_sizes
from heedful.models.encoder_config import Alias
from heedful.models.stored_config import configuration


@configuration
class AlbertConfig(BertConfig):
    """Sizes and options of an ALBERT model. The defaults are those of ALBERT xxlarge.

    The layers are divided into groups. The layers of a group share its blocks and their weights.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "albert"
    UNSUPPORTED_FIELDS: ClassVar[Mapping[str, Any]] = {
        "is_decoder": False,
        "add_cross_attention": False,
        "use_cache": True,
        "classifier_dropout": None,
    }
    DROPOUTS: ClassVar[tuple[str, ...]] = (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout_prob",
    )
    UNUSED: ClassVar[Collection[str]] = (
        *("down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type"),
        "num_memory_blocks",
    )

    vocab_size: int = 30000
    """Number of tokens in the vocabulary."""
    embedding_size: int = 128
    """Width of the embeddings; a linear layer projects them to ``hidden_size``."""
    hidden_size: int = 4096
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_hidden_layers: int = 12
    """Number of layers, each computed by the ``inner_group_num`` blocks of its group."""
    num_hidden_groups: int = 1
    """Number of groups of layers; at most ``num_hidden_layers``."""
    inner_group_num: int = 1
    """Number of blocks in a group, which run one after the other."""
    num_attention_heads: int = 64
    """Number of attention heads per block."""
    intermediate_size: int = 16384
    """Inner width of a block's feed-forward layer."""
    hidden_act: str = "gelu_new"
    """Activation of the feed-forward layer."""
    hidden_dropout_prob: float = 0.0
    """Dropout of the embeddings and of the output of each sublayer, before the residual sum."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of the attention weights."""
    classifier_dropout_prob: float = 0.1
    """Dropout before a classifier."""
    bos_token_id: int | None = 2
    """Id of the beginning-of-text token."""
    eos_token_id: int | None = 3
    """Id of the end-of-text token."""

    embedding_width = Alias[int]("embedding_size")
    head_dropout = Alias[float]("classifier_dropout_prob")

    def __post_init__(self) -> None:
        check_sizes(self, ("embedding_size", "num_hidden_groups", "inner_group_num"))
        check_numbers(self, ("classifier_dropout_prob",), float, below=1)
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.num_hidden_groups > max(self.num_hidden_layers, 1):
            raise UserError(
                f"num_hidden_groups is {self.num_hidden_groups}; there are "
                f"{self.num_hidden_layers} layers (num_hidden_layers)"
            )

    @property
    def num_blocks(self) -> int:
        """Number of blocks with their own weights."""
        return self.num_hidden_groups * self.inner_group_num

    @property
    def block_numbers(self) -> tuple[int, ...]:
        """Block numbers in the order in which the blocks run."""
        size = self.num_hidden_layers / self.num_hidden_groups  # a fraction, as in the reference
        groups = [int(layer / size) for layer in range(self.num_hidden_layers)]
        inner = range(self.inner_group_num)
        return tuple(group * self.inner_group_num + block for group in groups for block in inner)
