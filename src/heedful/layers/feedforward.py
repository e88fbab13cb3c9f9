"""The position-wise feed-forward half of a block, up to its second product.

Shapes: B batch, S length, D model width, F inner width.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.dropout import Dropout


def _gelu_tanh(hidden: Tensor) -> Tensor:
    return F.gelu(hidden, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}
"""The reference's names. ``gelu_new`` and ``gelu_pytorch_tanh`` are one function, and so are
``silu`` and ``swish``."""


class Intermediate(nn.Module):
    """The widening product, the activation and its dropout.

    Args:
        width: D.
        inner_width: F.
        activation: a name in ``ACTIVATIONS``.
        dropout: probability with which an activation is dropped in training.
    """

    def __init__(self, width: int, inner_width: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.dense = nn.Linear(width, inner_width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, S, F) for shape (B, S, D)."""
        inner: Tensor = self.dropout(self.activation(self.dense(hidden)))
        return inner
