"""Whether a model still is what its compiled form was made of.

A weight that is written to through ``.data``, or in inference mode, cannot be told: torch does not
count that. What was compiled answers as before then.
"""

from torch import nn


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
            (weights, name, weight)
            for part in parts
            for weights in (part._parameters, part._buffers)
            for name, weight in weights.items()
        ]
        tensors = [weight for _, _, weight in self._weights if weight is not None]
        # Asked before each answer, so each list is of what has to be asked alone.
        self._pointers = [(weight, weight.data_ptr()) for weight in tensors]
        self._versions = [
            (weight, weight._version) for weight in tensors if not weight.is_inference()
        ]

    def is_changed(self) -> bool:
        """Tell whether there are hooks, or a layer or a weight was replaced or written to."""
        return (
            any(self._hooks)
            or any(weights.get(name) is not weight for weights, name, weight in self._weights)
            or any(weight._version != version for weight, version in self._versions)
            or any(weight.data_ptr() != pointer for weight, pointer in self._pointers)
            or self._structure.is_changed()
        )
