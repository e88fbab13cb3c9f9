"""Whether a model still is what its compiled form was made of.

A weight that is written to through ``.data``, or in inference mode, cannot be told: torch does not
count that. What was compiled answers as before then.
"""

from torch import Tensor, nn


class Structure:
    """The layers of a model, which may be replaced.

    Args:
        modules: parts of the model; of each all layers are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        parts = [part for module in modules for part in module.modules()]
        # Dictionaries are compared by what they hold, and layers by which they are.
        self._layers = [(part._modules, dict(part._modules)) for part in parts if part._modules]

    def is_changed(self) -> bool:
        """Tell whether a layer was replaced, added or taken out."""
        return any(layers != before for layers, before in self._layers)


class Watch:
    """The layers of a model, their weights and their hooks.

    Args:
        modules: parts of the model; of each all layers are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        parts = [part for module in modules for part in module.modules()]
        self._structure = Structure(*modules)
        self._hooks = [
            hooks
            for part in parts
            for hooks in (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        ]
        self._weights = [
            (weights, name, weight, _version_of(weight))
            for part in parts
            for weights in (part._parameters, part._buffers)
            for name, weight in weights.items()
        ]

    def is_changed(self) -> bool:
        """Tell whether there are hooks, or a layer or a weight was replaced or written to."""
        return (
            any(self._hooks)
            or any(
                weights.get(name) is not weight or _version_of(weight) != version
                for weights, name, weight, version in self._weights
            )
            or self._structure.is_changed()
        )


def _version_of(weight: Tensor | None) -> tuple[int, int]:
    """Return where a weight is, and how often it was written to there."""
    if weight is None:
        return 0, 0
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version
