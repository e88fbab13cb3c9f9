"""What the weights of a recurrent translator are called in its folder: as in the model.

The reference has no such model, so these names are ours.
"""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from heedful.models.weights import check_weights


def from_file(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path
) -> dict[str, Tensor]:
    """Return a file's weights under the names of the model, in float32.

    Args:
        tensors: what the file holds.
        expected: the model's state dict, for names and shapes.
        folder: what an error calls their source.

    Raises:
        UserError: a weight is missing or too many, or has another shape or type.
    """
    check_weights(tensors, expected, folder)
    return {name: tensor.float() for name, tensor in tensors.items()}
