"""Dropout (Srivastava et al. 2014)."""

import torch.nn.functional as F
from torch import Tensor, nn


def dropout(values: Tensor, probability: float) -> Tensor:
    """Set each value to zero with the given probability and scale the others up to make up."""
    return F.dropout(values, probability) if probability > 0 else values


class Dropout(nn.Module):
    """Dropout in training, nothing outside it.

    Args:
        probability: of a value being set to zero, at least 0 and below 1.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values: Tensor) -> Tensor:
        """Return ``values``, in training with some of them dropped; any shape."""
        return dropout(values, self.probability if self.training else 0.0)

    def extra_repr(self) -> str:
        """Return what ``print`` shows of the module."""
        return f"probability={self.probability}"
