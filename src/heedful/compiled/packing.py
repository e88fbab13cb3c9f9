"""Which tokens of a padded batch a compiled encoder computes, and in which order.

Shapes: B batch, S length, N tokens without padding, D model width.
"""

from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import Group


class Packing(NamedTuple):
    """Which tokens of a padded batch are computed, and in which order."""

    groups: list[Group]
    tokens: Tensor | None
    """Where the tokens stand in the batch laid out as one row; None for all in order. Shape (N,)"""
    firsts: Tensor
    """Where the first of each sequence stands among them. Shape (B,)."""
    order: list[int] | None
    """Which sequence of the batch each of the sorted ones is; None if they are in order."""

    def of_tokens(self, padded: Tensor) -> Tensor:
        """Return shape (N, D) for shape (B, S, D)."""
        flat = padded.reshape(-1, padded.shape[2])
        return flat if self.tokens is None else flat[self.tokens]


def pack(mask: Tensor | None, batch: int, length: int) -> Packing | None:
    """Leave out padding, and sort sequences by length.

    Args:
        mask: bool, True for a token. Shape (B, S), or None if there is no padding.
        batch: B.
        length: S.

    Returns:
        None if a sequence does not begin with a token.
    """
    if mask is not None and not bool(mask[:, 0].all()):
        return None
    return _grouped(mask, batch, length)


def pack_unbroken(mask: Tensor | None, batch: int, length: int) -> Packing | None:
    """Do the same for sequences that may begin with padding; None if one has some inside."""
    if mask is not None and is_broken(mask):
        return None
    return _grouped(mask, batch, length)


def is_broken(mask: Tensor) -> bool:
    """Tell whether a sequence has padding between its tokens, or no token. Shape (B, S)."""
    return bool(((F.pad(mask, (1, 0))[:, :-1] < mask).sum(1) != 1).any())


def _grouped(mask: Tensor | None, batch: int, length: int) -> Packing:
    if mask is None:
        return Packing([Group(batch, length)], None, torch.arange(0, batch * length, length), None)
    lengths: list[int] = mask.sum(1).tolist()
    order = sorted(range(batch), key=lambda row: -lengths[row])
    in_order = order == list(range(batch))
    rows = torch.tensor(order)
    numbers = torch.arange(batch * length).view(batch, length)
    if not in_order:
        mask, numbers = mask[rows], numbers[rows]
    tokens = numbers[mask]
    ordered = [lengths[row] for row in order]
    groups = [Group(len(list(same)), size) for size, same in groupby(ordered)]
    ends = torch.tensor(ordered).cumsum(0)
    firsts = F.pad(ends[:-1], (1, 0))
    return Packing(groups, tokens, firsts, None if in_order else order)


def seen_from_first(mask: Tensor) -> Tensor | None:
    """Return which tokens a causal mask leaves, if each sees those before it that are left.

    Args:
        mask: bool. Shape (B or 1, 1, S, S).

    Returns:
        Shape (B or 1, S); None if it says anything else.
    """
    left = mask[:, 0, -1]
    before = torch.ones_like(mask[0, 0]).tril()
    return left if torch.equal(mask[:, 0], left[:, None] & before) else None
