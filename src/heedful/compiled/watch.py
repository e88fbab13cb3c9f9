"""Detect changes to a model after its compilation.

Writes to a weight through ``.data``, or in inference mode, cannot be detected, because torch does
not count them. The compiled model then keeps giving its old results.
"""

from torch import nn


def has_hooks(model: nn.Module) -> bool:
    """Return whether a layer of a model has forward hooks."""
    return any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules())


class Structure:
    """Watches the layers of a model for replacements.

    Args:
        modules: parts of the model; all their layers are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        all_modules = [layer for module in modules for layer in module.modules()]
        # Dictionaries compare by content, and layers by identity.
        self._layers = [
            (module._modules, dict(module._modules)) for module in all_modules if module._modules
        ]

    def is_changed(self) -> bool:
        """Return whether a layer was replaced, added or removed."""
        return any(layers != before for layers, before in self._layers)


class Watch:
    """Watches the layers of a model, their weights and their hooks.

    Args:
        modules: parts of the model; all their layers are watched.
    """

    def __init__(self, *modules: nn.Module) -> None:
        all_modules = [layer for module in modules for layer in module.modules()]
        self._structure = Structure(*modules)
        self._hooks = [
            hooks
            for module in all_modules
            for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        ]
        self._weights = [
            (weights, name, weight)
            for module in all_modules
            for weights in (module._parameters, module._buffers)
            for name, weight in weights.items()
        ]
        tensors = [weight for _, _, weight in self._weights if weight is not None]
        # Checked before each call, so each list holds only the weights that need the check.
        self._pointers = [(weight, weight.data_ptr()) for weight in tensors]
        self._versions = [
            (weight, weight._version) for weight in tensors if not weight.is_inference()
        ]

    def is_changed(self) -> bool:
        """Return whether there are hooks, or a layer or a weight was replaced or modified."""
        return (
            any(self._hooks)
            or any(weights.get(name) is not weight for weights, name, weight in self._weights)
            or any(weight._version != version for weight, version in self._versions)
            or any(weight.data_ptr() != pointer for weight, pointer in self._pointers)
            or self._structure.is_changed()
        )
