"""Additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

The score of a key is ``v' tanh(W q + U h)`` for a query q and a state h. The keys ``U h`` do not
depend on the query, so they are computed once and passed in.

Shapes: B batch, E number of states attended to, D state width, A attention width, Q query width.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.linear import Linear


class KeysAndValues(NamedTuple):
    """Keys, values and their mask."""

    keys: Tensor
    """The projected states, ``U h``. Shape (B, E, A)."""
    values: Tensor
    """The states. Shape (B, E, D)."""
    mask: Tensor | None
    """True where a query may attend; None lets it attend to all. Shape (B, E), bool."""

    def select(self, rows: Tensor) -> "KeysAndValues":
        """Return the sequences with the given indices, shape (N,), with repetitions allowed."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return KeysAndValues(
            self.keys.index_select(0, rows), self.values.index_select(0, rows), mask
        )


class AdditiveOutput(NamedTuple):
    """Output of attention."""

    values: Tensor
    """The context vectors: weighted sums of the values. Shape (B, D)."""
    weights: Tensor
    """The attention weights. Shape (B, E)."""


def attend_additively(query: Tensor, memory: KeysAndValues, score: Tensor) -> AdditiveOutput:
    """Return the weighted sum of the values of each sequence.

    A query without any allowed key gets zeros, and passes no gradient back.

    Args:
        query: ``W q``, one per sequence. Shape (B, A).
        memory: keys and values.
        score: ``v``. Shape (A,).
    """
    compared = (memory.keys + query[:, None]).tanh_()  # (B, E, A)
    scores = compared @ score  # (B, E)
    if memory.mask is not None:
        has_keys = memory.mask.any(1, keepdim=True)  # (B, 1)
        # A softmax over only -inf would be NaN. Such queries get zeros below.
        scores = scores.masked_fill(~memory.mask & has_keys, -math.inf)
    weights = scores.softmax(1)
    if memory.mask is not None:
        weights = weights * has_keys
    mixed = torch.bmm(weights[:, None], memory.values).squeeze(1)  # (B, D)
    return AdditiveOutput(mixed, weights)


class AdditiveAttention(nn.Module):
    """Additive attention with its parameters.

    Args:
        query_width: Q.
        memory_width: D.
        width: A.
    """

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = Linear(query_width, width)
        self.key = Linear(memory_width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width))

    def prepare(self, states: Tensor, mask: Tensor | None) -> KeysAndValues:
        """Return the keys and values of encoder states, for any number of queries.

        Args:
            states: shape (B, E, D).
            mask: True where a query may attend. Shape (B, E), bool.
        """
        return KeysAndValues(self.key(states), states, mask)

    def forward(self, query: Tensor, memory: KeysAndValues) -> AdditiveOutput:
        """Attend with a query that ``self.query`` has projected, one per sequence. Shape (B, A)."""
        return attend_additively(query, memory, self.score)
