"""What a student learns from its teacher about a batch, and the loss of it.

Shapes: N rows that are compared, C numbers of a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from heedful import losses

Kind = Literal["classes", "switches", "numbers", "vectors"]
"""What a row is: scores of classes of which one is right; scores of outputs that are each right or
not; numbers; a vector of which the direction counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """One thing that a student is to tell as its teacher does."""

    kind: Kind
    count: float
    """What the sum of the losses is divided by: how many rows there are, or numbers."""
    read: Callable[[Any], Tensor]
    """Takes what is compared from what a model returns. Shape (N, C)."""

    def loss(self, student: Any, teacher: Any, temperature: float) -> Tensor:
        """Return the sum of the losses.

        Args:
            student: what the student returned for the batch.
            teacher: what the teacher returned.
            temperature: what scores are divided by first.
        """
        rows, right = self.read(student), self.read(teacher).detach()
        if self.kind == "classes":
            return losses.soft_cross_entropy(rows, right, temperature)[0]
        if self.kind == "switches":
            return losses.soft_binary_cross_entropy(rows, right, temperature)[0]
        if self.kind == "vectors":
            return losses.cosine_distance(rows, right)[0]
        return losses.mse(rows, right)[0]
