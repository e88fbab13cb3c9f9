"""Linear layers of compiled models: over rows, fused with the operations after the product.

Shapes: N rows (tokens of all sequences, without padding), I input width, O output width.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.compiled import kernels


class Linear(Protocol):
    """A linear layer of a compiled model."""

    in_features: int
    dtype: torch.dtype
    """Dtype of the output."""

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the product plus bias, followed by an activation or a residual connection.

        Args:
            hidden: shape (N, I), contiguous.
            residual: added to the output; only without activation. Shape (N, O), contiguous.

        Returns:
            Shape (N, O).
        """
        ...


class Linears(Protocol):
    """Compiles the linear layers of a model."""

    together: int | None
    """Tokens per chunk that a block computes after its attention; None for all tokens."""

    def after_norm(
        self, layers: Sequence[nn.Linear], factor: float = 1.0, activation: str | None = None
    ) -> Linear:
        """Compile layers with a common input, the output of a layer normalisation, into one.

        Args:
            layers: the uncompiled layers.
            factor: factor of the first layer's output.
            activation: a name in ``feedforward.ACTIVATIONS``, or None.
        """
        ...

    def after_any(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Compile a layer whose input range may differ from token to token.

        Args:
            weight: shape (O, I).
            bias: shape (O,), or None.
        """
        ...


class PackedLinear:
    """A linear layer whose weight is stored in the layout of the kernel.

    A row's result does not depend on the other rows. A single row would take another code path in
    the kernel, so it is computed twice.

    Args:
        weight: shape (O, I), in the dtype to compute in; it is copied.
        bias: shape (O,), or None.
        activation: a name in ``feedforward.ACTIVATIONS``, or None.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: str | None = None
    ) -> None:
        self.in_features = weight.shape[1]
        self.dtype = weight.dtype
        apart = kernels.activate_apart(weight.dtype)
        self.in_place = kernels.IN_PLACE.get(activation) if apart else None
        self.activation = kernels.FUSED[activation if self.in_place is None else None]
        self.packed = kernels.pack(weight)
        self.bias = None if bias is None else bias.detach().clone()

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return shape (N, O) for shape (N, I); see ``Linear``."""
        if hidden.shape[0] == 1:
            doubled = None if residual is None else residual.expand(2, -1).contiguous()
            return self(hidden.expand(2, -1).contiguous(), doubled)[:1]
        if residual is None:
            product = kernels.multiply(hidden, self.packed, self.bias, self.activation)
            return product if self.in_place is None else self.in_place(product)
        return kernels.multiply_and_add(hidden, residual, self.packed, self.bias)


class UniformLinears:
    """Compiles all layers in the same way; see ``Linears``.

    Args:
        kind: creates a layer from its weight, its bias and the name of its activation.
        together: tokens per chunk that a block computes after its attention; None for all tokens.
    """

    def __init__(
        self,
        kind: Callable[[Tensor, Tensor | None, str | None], Linear],
        together: int | None = None,
    ) -> None:
        self.kind, self.together = kind, together

    def after_norm(
        self, layers: Sequence[nn.Linear], factor: float = 1.0, activation: str | None = None
    ) -> Linear:
        """See ``Linears``."""
        return self.kind(*concatenated(layers, factor), activation)

    def after_any(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """See ``Linears``."""
        return self.kind(weight, bias, None)


def concatenated(layers: Sequence[nn.Linear], factor: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """Return the concatenated weights and biases of layers with a common input.

    Args:
        layers: the layers. If any has a bias, a missing bias counts as zeros.
        factor: factor of the first layer's output.
    """
    weight = torch.cat([layer.weight.detach() for layer in layers])
    bias = None
    if any(layer.bias is not None for layer in layers):
        bias = torch.cat([_bias(layer) for layer in layers])
    if factor != 1:
        first = slice(layers[0].out_features)
        for tensor in (weight, bias):
            if tensor is not None:
                tensor[first] *= factor
    return weight, bias


def _bias(layer: nn.Linear) -> Tensor:
    bias: Tensor | None = layer.bias
    return layer.weight.new_zeros(layer.out_features) if bias is None else bias.detach()
