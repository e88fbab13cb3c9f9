"""What a model with a head has from the body under it."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import nn

from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.model import Model


class WithHead(Model):
    """A body and what decides from its hidden states."""

    bert: BertModel

    can_recompute: ClassVar[bool] = True
    can_prune: ClassVar[bool] = True

    @property
    def body(self) -> BertModel:
        """What gives the hidden states."""
        return self.bert

    @property
    def config(self) -> BertConfig:
        """The body's configuration."""
        return self.body.config

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether the body recomputes; see ``Model``."""
        return self.body.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.body.gradient_checkpointing = recompute

    @property
    def max_positions(self) -> int:
        """The most tokens that it takes at once."""
        return self.body.max_positions

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what stands on the body, and may learn at a rate of its own."""
        inside = {id(parameter) for parameter in self.body.parameters()}
        head = [parameter for parameter in self.parameters() if id(parameter) not in inside]
        return [*self.body.head_parameters(), *head]

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings."""
        return self.body.get_input_embeddings()

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the word embeddings; see ``BertModel.set_input_embeddings``."""
        self.body.set_input_embeddings(embeddings)

    def resize_token_embeddings(self, size: int) -> nn.Embedding:
        """Change how many words the model knows; see ``BertModel.resize_token_embeddings``."""
        return self.body.resize_token_embeddings(size)

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Take attention heads out of the body; see ``BertModel.prune_heads``."""
        self.body.prune_heads(heads)
