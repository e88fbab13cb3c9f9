"""Additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

The score of a key is ``v' tanh(W q + U h)`` for a query q and a state h. What does not depend on
the query, ``U h``, is computed once and handed in.

Shapes: B batch, E number of states attended to, D their width, A width of the comparison, Q width
of a query.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.linear import Linear


class Memory(NamedTuple):
    """What queries attend to."""

    keys: Tensor
    """The states as they are compared with. Shape (B, E, A)."""
    values: Tensor
    """The states as they are mixed. Shape (B, E, D)."""
    mask: Tensor | None
    """True where a query may attend; None lets it attend to all. Shape (B, E), bool."""

    def select(self, rows: Tensor) -> "Memory":
        """Return the sequences of the given numbers, shape (N,), any of them several times."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return Memory(self.keys.index_select(0, rows), self.values.index_select(0, rows), mask)


class Mixed(NamedTuple):
    """What attention returns."""

    values: Tensor
    """The mixed values. Shape (B, D)."""
    weights: Tensor
    """How much each state has of them. Shape (B, E)."""


def attend_additively(query: Tensor, memory: Memory, score: Tensor) -> Mixed:
    """Mix the values of each sequence by how well their keys fit its query.

    A query that may attend to nothing gets zeros, and sends no gradient back.

    Args:
        query: ``W q``, one a sequence. Shape (B, A).
        memory: what it attends to.
        score: ``v``. Shape (A,).
    """
    compared = (memory.keys + query[:, None]).tanh_()  # (B, E, A)
    scores = compared @ score  # (B, E)
    if memory.mask is not None:
        reach = memory.mask.any(1, keepdim=True)  # (B, 1)
        # Nothing but -inf would give a softmax that is not a number; its zeros come below.
        scores = scores.masked_fill(~memory.mask & reach, -math.inf)
    weights = scores.softmax(1)
    if memory.mask is not None:
        weights = weights * reach
    mixed = torch.bmm(weights[:, None], memory.values).squeeze(1)  # (B, D)
    return Mixed(mixed, weights)


class AdditiveAttention(nn.Module):
    """The weights of additive attention.

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

    def prepare(self, states: Tensor, mask: Tensor | None) -> Memory:
        """Return what many queries can attend to.

        Args:
            states: shape (B, E, D).
            mask: True where a query may attend. Shape (B, E), bool.
        """
        return Memory(self.key(states), states, mask)

    def forward(self, query: Tensor, memory: Memory) -> Mixed:
        """Attend with ``self.query`` of what asks, one a sequence. Shape (B, A)."""
        return attend_additively(query, memory, self.score)
