"""Configuration of DeBERTa v2 and v3, with the reference's key names."""

from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.configs import check_booleans, check_multiple, check_name, check_numbers
from heedful.models.deberta.config import DebertaConfig
from heedful.models.stored_config import configuration

NORMS = ("none", "layer_norm")


@configuration
class DebertaV2Config(DebertaConfig):
    """Sizes and options of a DeBERTa v2 or v3 model. The defaults are those of xlarge.

    Raises:
        UserError: a value is of the wrong type or out of range, or two values conflict.
    """

    MODEL_TYPE: ClassVar[str] = "deberta-v2"

    vocab_size: int = 128100
    """Number of tokens in the vocabulary."""
    hidden_size: int = 1536
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_hidden_layers: int = 24
    """Number of blocks."""
    num_attention_heads: int = 24
    """Number of attention heads per block."""
    intermediate_size: int = 6144
    """Inner width of a block's feed-forward layer."""
    position_buckets: int = -1
    """Number of buckets for the distances to one side. The first half hold one distance each; later
    buckets grow. Below 1, every distance has its own bucket."""
    share_att_key: bool = False
    """Whether content and distances share their query and key projections."""
    norm_rel_ebd: str = "none"
    """``layer_norm`` to normalise the distance embeddings, else ``none``."""
    conv_kernel_size: int = 0
    """Kernel size, in tokens, of a convolution after the first block; odd. 0 for no convolution."""
    conv_act: str = "tanh"
    """Activation of the convolution."""
    conv_groups: int = 1
    """Number of groups of the convolution."""

    def __post_init__(self) -> None:
        if self.talking_head:
            raise UserError("talking_head is true; only the first version of DeBERTa has it")
        object.__setattr__(self, "norm_rel_ebd", str(self.norm_rel_ebd).strip().lower())
        check_booleans(self, ("share_att_key",))
        check_numbers(self, ("position_buckets",), int, low=-1, below=2**24)
        check_numbers(self, ("conv_kernel_size",), int, below=2**16)
        check_numbers(self, ("conv_groups",), int, low=1, below=2**28)
        check_name(self, "norm_rel_ebd", NORMS)
        check_name(self, "conv_act", ACTIVATIONS)
        DebertaConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise UserError(f"conv_kernel_size is {self.conv_kernel_size}; it must be odd, or 0")
        check_multiple(self, "hidden_size", "conv_groups")
        if self.position_buckets == 1:
            raise UserError("position_buckets is 1; it must be at least 2, or -1")
        longest = self.max_position_embeddings - 1
        if self.position_buckets > 0 and self.num_distances - 1 <= self._single < longest:
            raise UserError(
                f"max_relative_positions is {self.max_relative_positions}; with position_buckets "
                f"{self.position_buckets} it must be at least {self._single + 2}"
            )

    @property
    def _single(self) -> int:
        """Largest distance up to which each distance has its own bucket."""
        return self.position_buckets // 2

    @property
    def has_ranges(self) -> bool:
        """Whether some bucket holds more than one distance."""
        return self.position_buckets > 0 and self.num_distances - 1 > self._single

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``, for heedful and for the reference."""
        values = DebertaConfig.to_dict(self)
        values.pop("talking_head", None)
        if not self.conv_kernel_size:
            for name in ("conv_kernel_size", "conv_act", "conv_groups"):
                del values[name]
        return values
