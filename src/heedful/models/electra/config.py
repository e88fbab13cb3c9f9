"""What an ELECTRA is made of, under the reference's key names."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_name, check_numbers, check_sizes, check_switches
from heedful.models.heads import SUMMARIES


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectraConfig(BertConfig):
    """The sizes and options of an ELECTRA. The defaults are those of ELECTRA small.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "electra"
    DROPOUTS: ClassVar[tuple[str, ...]] = (*BertConfig.DROPOUTS, "summary_last_dropout")

    embedding_size: int = 128
    """Width of the embeddings; a linear layer widens them to ``hidden_size`` where that differs."""
    hidden_size: int = 256
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_attention_heads: int = 4
    """Number of attention heads in a block."""
    intermediate_size: int = 1024
    """Width inside the feed-forward half of a block."""
    summary_type: str = "first"
    """What stands for a choice of ``ElectraForMultipleChoice``: one of ``heads.SUMMARIES``."""
    summary_use_proj: bool = True
    """Whether that goes through a linear layer."""
    summary_activation: str | None = "gelu"
    """Activation after it; None for none."""
    summary_last_dropout: float = 0.1
    """Dropout after that."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        check_sizes(self, ("embedding_size",))
        check_switches(self, ("summary_use_proj",))
        check_numbers(self, ("summary_last_dropout",), float, below=1)
        check_name(self, "summary_type", SUMMARIES)
        if self.summary_activation is not None:
            check_name(self, "summary_activation", ACTIVATIONS)

    @property
    def embedding_width(self) -> int:
        """Width of the tables of embeddings."""
        return self.embedding_size

    def generator(self, size: float) -> Self:
        """Return the configuration of the generator of a discriminator.

        Its heads are as wide, its embeddings too; it has fewer heads and is narrower by that.

        Args:
            size: the share of its width.
        """
        heads = max(1, round(self.num_attention_heads * size))
        return replace(
            self,
            num_attention_heads=heads,
            hidden_size=heads * (self.hidden_size // self.num_attention_heads),
            intermediate_size=max(1, round(self.intermediate_size * size)),
        )
