"""What a model with a head has from the encoder under it, ``bert``.

A head has no base class: it names what it takes from here, so that its class shows all it has.
"""

from typing import Generic, Protocol, TypeVar

from torch import nn

from heedful.models.bert import BertModel

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
