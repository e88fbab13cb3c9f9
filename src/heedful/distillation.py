"""Distillation losses: what a student learns from its teacher about a batch.

Shapes: N rows to compare, C values of a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from heedful import losses

Kind = Literal["classes", "switches", "numbers", "vectors"]
"""Type of a row: class logits of which one class is right; independent binary logits; numbers; a
vector of which only the direction counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationLoss:
    """One output that the student learns from the teacher."""

    kind: Kind
    divisor: float
    """Divisor of the summed loss: the number of rows, or of values."""
    extract: Callable[[Any], Tensor]
    """Extracts the values to compare from a model's output. Shape (N, C)."""

    def loss(self, student: Any, teacher: Any, temperature: float) -> Tensor:
        """Return the summed loss.

        Args:
            student: the student's output for the batch.
            teacher: the teacher's output for the batch.
            temperature: the divisor of logits before the softmax or sigmoid.
        """
        predictions, targets = self.extract(student), self.extract(teacher).detach()
        if self.kind == "classes":
            return losses.soft_cross_entropy(predictions, targets, temperature)[0]
        if self.kind == "switches":
            return losses.soft_binary_cross_entropy(predictions, targets, temperature)[0]
        if self.kind == "vectors":
            return losses.cosine_distance(predictions, targets)[0]
        return losses.mse(predictions, targets)[0]
