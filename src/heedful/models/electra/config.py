"""Configuration of ELECTRA, with the reference's key names."""

from dataclasses import replace
from typing import ClassVar, Self

from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_booleans, check_name, check_numbers, check_sizes
from heedful.models.encoder_config import Alias
from heedful.models.heads import SUMMARIES
from heedful.models.stored_config import configuration


@configuration
class ElectraConfig(BertConfig):
    """Sizes and options of an ELECTRA model. The defaults are those of ELECTRA small.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "electra"
    DROPOUTS: ClassVar[tuple[str, ...]] = (*BertConfig.DROPOUTS, "summary_last_dropout")

    embedding_size: int = 128
    """Width of the embeddings. If it differs from ``hidden_size``, a linear layer projects them."""
    hidden_size: int = 256
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_attention_heads: int = 4
    """Number of attention heads per block."""
    intermediate_size: int = 1024
    """Inner width of a block's feed-forward layer."""
    summary_type: str = "first"
    """Summary of a choice in ``ElectraForMultipleChoice``: one of ``heads.SUMMARIES``."""
    summary_use_proj: bool = True
    """Whether a linear layer projects the summary."""
    summary_activation: str | None = "gelu"
    """Activation after the projection; None for no activation."""
    summary_last_dropout: float = 0.1
    """Dropout after the activation."""

    embedding_width = Alias[int]("embedding_size")

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        check_sizes(self, ("embedding_size",))
        check_booleans(self, ("summary_use_proj",))
        check_numbers(self, ("summary_last_dropout",), float, below=1)
        check_name(self, "summary_type", SUMMARIES)
        if self.summary_activation is not None:
            check_name(self, "summary_activation", ACTIVATIONS)

    def generator(self, size: float) -> Self:
        """Return the generator's configuration for this discriminator.

        The generator has fewer heads and is therefore narrower. The widths of heads and embeddings
        stay the same.

        Args:
            size: width of the generator as a share of the discriminator's width.
        """
        heads = max(1, round(self.num_attention_heads * size))
        return replace(
            self,
            num_attention_heads=heads,
            hidden_size=heads * (self.hidden_size // self.num_attention_heads),
            intermediate_size=max(1, round(self.intermediate_size * size)),
        )
