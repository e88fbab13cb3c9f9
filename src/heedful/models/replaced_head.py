"""A head that a user replaced with a module, as in ``model.classifier = nn.Linear(768, 3)``.

Shapes: B batch, S length, D model width, ... (B,) or (B, S).
"""

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.linear import in_dtype_of
from heedful.models.heads import DenseSequenceHead, SummaryHead


class ReplacedHead:
    """Computes logits with a user's module, and the rest like the head that the module replaces.

    As in the reference, the dropout before a classifier stays, and so does a layer before it that
    has a name of its own there, such as DistilBERT's ``pre_classifier``.

    Args:
        module: maps hidden states to logits.
        original: the replaced head. It says which hidden states the module reads, and computes the
            loss.
        inner: the layer that stays, if any.
        training: whether the model is being trained.
    """

    def __init__(
        self, module: nn.Module, original: Any, inner: nn.Module | None, *, training: bool
    ) -> None:
        self.module = module
        self.original = original
        self.inner = inner
        self.training = training
        self.replaces_all = inner is None and isinstance(original, DenseSequenceHead)
        if self.replaces_all:  # it selects the first token itself
            self.every_token = True

    def __call__(self, hidden: Tensor) -> Tensor:
        """Return the logits, shape (..., C), for shape (..., D)."""
        original = self.original
        if self.inner is not None:
            dropped = self._drop(getattr(original, "input_dropout", None), hidden)
            hidden = self.inner(in_dtype_of(self.inner, dropped))
        if isinstance(original, SummaryHead | DenseSequenceHead) and not self.replaces_all:
            activation = original.activation
            hidden = hidden if activation is None else activation(hidden)
        # Other heads drop nothing, or within themselves.
        if isinstance(original, nn.Linear | DenseSequenceHead) and not self.replaces_all:
            hidden = self._drop(getattr(original, "dropout", None), hidden)
        logits: Tensor = self.module(hidden)
        return logits

    def _drop(self, dropout: Any, hidden: Tensor) -> Tensor:
        # heedful's module calls it probability, torch's p.
        probability: float = getattr(dropout, "probability", getattr(dropout, "p", 0.0))
        return F.dropout(hidden, probability, self.training)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the module and of the layer that stays."""
        yield from self.module.parameters()
        if self.inner is not None:
            yield from self.inner.parameters()


def inner_layer(head: nn.Module) -> str | None:
    """Return the name of the layer before a text classifier's last one; None if there is none."""
    if isinstance(head, DenseSequenceHead):
        return "dense"
    return "summary" if isinstance(head, SummaryHead) and head.summary is not None else None
