"""Linear layers as compiled models use them: over rows, with what follows the product fused to it.

Shapes: N rows (tokens of all sequences, without padding), I width of what comes in, O of what comes
out.
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
    """Of what comes out."""

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the product, with the bias and the activation, or the bias and a residual.

        Args:
            hidden: shape (N, I), contiguous.
            residual: what is added, where there is no activation. Shape (N, O), contiguous.

        Returns:
            Shape (N, O).
        """
        ...


class Linears(Protocol):
    """How the linear layers of a model are compiled."""

    together: int | None
    """How many tokens a block computes together after its attention; None for all of them."""

    def after_norm(
        self, layers: Sequence[nn.Linear], factor: float = 1.0, activation: str | None = None
    ) -> Linear:
        """Compile layers that read the same, which a layer normalisation gives, as one.

        Args:
            layers: the readable forms.
            factor: what the output of the first is multiplied by.
            activation: a name in ``feedforward.ACTIVATIONS``, or None.
        """
        ...

    def after_any(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Compile a layer that reads what differs from token to token.

        Args:
            weight: shape (O, I).
            bias: shape (O,), or None.
        """
        ...


class PackedLinear:
    """A linear layer whose weight is kept in the layout of the kernel.

    A row's result does not depend on the other rows: one row alone would go another way through the
    kernel, and so is computed twice.

    Args:
        weight: shape (O, I), in the number format to compute in; a copy is kept.
        bias: shape (O,), or None.
        activation: a name in ``feedforward.ACTIVATIONS``, or None.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: str | None = None
    ) -> None:
        self.in_features = weight.shape[1]
        self.dtype = weight.dtype
        self.activation = kernels.FUSED[activation]
        self.packed = kernels.pack(weight)
        self.bias = None if bias is None else bias.detach().clone()

    def __call__(self, hidden: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return shape (N, O) for shape (N, I); see ``Linear``."""
        if hidden.shape[0] == 1:
            twice = None if residual is None else residual.expand(2, -1).contiguous()
            return self(hidden.expand(2, -1).contiguous(), twice)[:1]
        if residual is None:
            return kernels.multiply(hidden, self.packed, self.bias, self.activation)
        return kernels.multiply_and_add(hidden, residual, self.packed, self.bias)


class AlikeLinears:
    """Layers that are all compiled alike; see ``Linears``.

    Args:
        kind: makes one of its weight, its bias and the name of its activation.
        together: how many tokens a block computes together; None for all of them.
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
        return self.kind(*joined(layers, factor), activation)

    def after_any(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """See ``Linears``."""
        return self.kind(weight, bias, None)


def joined(layers: Sequence[nn.Linear], factor: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """Return the weights and biases of layers that read the same, one under the other.

    Args:
        layers: the layers. Where some have a bias, those of the others are zeros.
        factor: what the output of the first is multiplied by.
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
