"""Embeddings, as several protocols return them. Shapes: D embedding size."""

import torch.nn.functional as F
from torch import Tensor

from heedful.serving.problem import Problem
from heedful.serving.service import ServedRun

NEED = "a run of embed"


def gives_vectors(served: ServedRun) -> bool:
    """Return whether a run computes embeddings."""
    return "embed" in served.task.abilities


def shaped(vector: Tensor, dimensions: int | None, *, normalise: bool) -> Tensor:
    """Return a vector truncated to its first dimensions.

    Args:
        vector: the embedding. Shape (D,).
        dimensions: number of dimensions to keep; None for all.
        normalise: whether to scale the result to length 1.

    Raises:
        Problem: the number of dimensions is not between 1 and D.
    """
    if dimensions is not None and not 1 <= dimensions <= len(vector):
        raise Problem("validation", f"dimensions is {dimensions}: give 1 to {len(vector)}")
    vector = vector[:dimensions]
    return F.normalize(vector, dim=0) if normalise else vector
