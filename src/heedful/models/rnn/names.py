"""Names of a recurrent translator's weights in checkpoints: the same as in the model.

The reference has no such model, so these names are ours.
"""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from heedful.models.weights import check_weights


def from_file(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path
) -> dict[str, Tensor]:
    """Return a file's weights under their names in the model, in float32.

    Args:
        tensors: contents of the file.
        expected: the model's state dict, for names and shapes.
        folder: the source, for error messages.

    Raises:
        UserError: a weight is missing, unknown, or of the wrong shape or type.
    """
    check_weights(tensors, expected, folder)
    return {name: tensor.float() for name, tensor in tensors.items()}
