"""A head that a user replaced with a module, as in ``model.classifier = nn.Linear(768, 3)``.

Shapes: B batch, S length, D model width, ... (B,) or (B, S).
"""

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class ReplacedHead:
    """Computes logits with a user's module, and the rest like the head that the module replaces.

    As in the reference, the dropout before a classifier stays.

    Args:
        module: maps hidden states to logits.
        original: the replaced head. It says which hidden states the module reads, and computes the
            loss.
        training: whether the model is being trained.
    """

    def __init__(self, module: nn.Module, original: Any, *, training: bool) -> None:
        self.module = module
        self.original = original
        self.training = training

    def __call__(self, hidden: Tensor) -> Tensor:
        """Return the logits, shape (..., C), for shape (..., D)."""
        dropout = getattr(self.original, "dropout", None)
        # heedful's module calls it probability, torch's p.
        probability: float = getattr(dropout, "probability", getattr(dropout, "p", 0.0))
        logits: Tensor = self.module(F.dropout(hidden, probability, self.training))
        return logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the module."""
        return self.module.parameters()
