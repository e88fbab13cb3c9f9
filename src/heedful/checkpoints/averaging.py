"""Average of the weights of several checkpoints, as in the Transformer paper (section 6.1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from torch import Tensor

from heedful.checkpoints import steps


def averaged_weights(
    folders: Sequence[Path], like: Mapping[str, Tensor] = MappingProxyType({})
) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints, summed in float64.

    Integer tensors, such as counters, are taken from the first checkpoint.

    Args:
        folders: checkpoints of one run, at least one.
        like: see ``steps.load``.

    Raises:
        UserError: a checkpoint is damaged.
    """
    first = steps.load_weights(folders[0], like)
    sums = {name: tensor.double() for name, tensor in first.items() if tensor.is_floating_point()}
    for folder in folders[1:]:
        weights = steps.load_weights(folder, like)
        for name, total in sums.items():
            total += weights[name]
    return first | {
        name: (total / len(folders)).to(first[name].dtype) for name, total in sums.items()
    }
