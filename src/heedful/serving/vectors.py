"""Vectors as several protocols ask for them. Shapes: D width of a vector."""

import torch.nn.functional as F
from torch import Tensor

from heedful.serving.problem import Problem
from heedful.serving.service import Served

NEED = "a run of embed"


def gives_vectors(served: Served) -> bool:
    """Tell whether a run gives vectors."""
    return "embed" in served.task.abilities


def shaped(vector: Tensor, dimensions: int | None, *, normalise: bool) -> Tensor:
    """Return the first dimensions of a vector, with length 1 if it is wanted. Shape (D,).

    Raises:
        Problem: it has fewer dimensions, or none are asked for.
    """
    if dimensions is not None and not 1 <= dimensions <= len(vector):
        raise Problem("validation", f"dimensions is {dimensions}: give 1 to {len(vector)}")
    vector = vector[:dimensions]
    return F.normalize(vector, dim=0) if normalise else vector
