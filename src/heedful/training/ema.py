"""A moving average of the weights (Polyak and Juditsky 1992): steadier than the newest ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from heedful.training import ranks


class MovingAverage:
    """An exponential moving average of a model's parameters, in their own format.

    Args:
        model: its parameters as they are now are where the average starts.
        decay: what share of the average a step leaves, from 0 to below 1. Early on it is less, so
            that the start is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._weights = [ranks.local(weight.detach()) for weight in model.parameters()]
        self._decay = decay
        self._average = [weight.clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the parameters as they are after a step, numbered from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @torch.no_grad()
    def restart(self) -> None:
        """Start from the parameters as they are now."""
        torch._foreach_copy_(self._average, self._weights)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the model compute with the average; afterwards with its own parameters again."""
        kept = [weight.clone() for weight in self._weights]
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._weights, kept)
