"""What a model with a head has from the encoder under it, ``bert``.

A head has no base class: it names what it takes from here, so that its class shows all it has.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from torch import nn

from heedful.models.bert.model import BertModel

Value = TypeVar("Value")


class HasBody(Protocol):
    """A model with a head."""

    bert: BertModel


class OfBody(Generic[Value]):
    """An attribute that is read from the encoder and set on it, under the same name."""

    def __set_name__(self, owner: type[nn.Module], name: str) -> None:
        self._name = name

    def __get__(self, model: HasBody, owner: type[nn.Module]) -> Value:
        value: Value = getattr(model.bert, self._name)
        return value

    def __set__(self, model: HasBody, value: Value) -> None:
        setattr(model.bert, self._name, value)


def get_input_embeddings(self: HasBody) -> nn.Embedding:
    """Return the word embeddings."""
    return self.bert.get_input_embeddings()


def set_input_embeddings(self: HasBody, embeddings: nn.Embedding) -> None:
    """Replace the word embeddings; see ``BertModel.set_input_embeddings``."""
    self.bert.set_input_embeddings(embeddings)


def resize_token_embeddings(self: HasBody, size: int) -> nn.Embedding:
    """Change how many words the model knows; see ``BertModel.resize_token_embeddings``."""
    return self.bert.resize_token_embeddings(size)


def prune_heads(self: HasBody, heads: Mapping[int, Sequence[int]]) -> None:
    """Take attention heads out; see ``BertModel.prune_heads``."""
    self.bert.prune_heads(heads)
