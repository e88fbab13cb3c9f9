"""A moving average of the weights (Polyak and Juditsky 1992), less noisy than the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from heedful.training import ranks


class MovingAverage:
    """An exponential moving average of a model's parameters, in their own dtype.

    Args:
        model: the model. The average starts from its current parameters.
        decay: share of the average that remains after a step, from 0 to below 1. It is lower in the
            first steps, so that the initial weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._weights = [ranks.local(weight.detach()) for weight in model.parameters()]
        self._decay = decay
        self._average = [weight.clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the parameters after a step, numbered from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @torch.no_grad()
    def restart(self) -> None:
        """Restart the average from the current parameters."""
        torch._foreach_copy_(self._average, self._weights)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the average into the model inside the context; restore the parameters afterwards."""
        own_weights = [weight.clone() for weight in self._weights]
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._weights, own_weights)
