"""Which tokens of a padded batch a compiled encoder computes, and in which order.

oneDNN compiles a kernel for each number of rows of a product, which takes a millisecond and stays
in memory. So copies of one token, which are in no sequence, fill a batch up to one of few sizes.

Shapes: B batch, S length, N tokens without padding, with those that fill up, D model width.
"""

from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import Group

_STEPS = 8
"""Numbers of tokens between a power of two and the next, so that at most an eighth is filled up."""

_LONGEST_STEP = 64
"""The most that one is above the one before: to compute more copies would take longer than to
compile a kernel."""


class Packing(NamedTuple):
    """Which tokens of a padded batch are computed, and in which order."""

    groups: list[Group]
    tokens: Tensor | None
    """Where the tokens stand in the batch laid out as one row; None for all in order. Shape (N,)"""
    num_tokens: int
    """How many of them are no copies; they come first."""
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
        tokens = _filled(torch.arange(batch * length))
        return Packing(
            groups=[Group(batch, length)],
            tokens=tokens if len(tokens) > batch * length else None,
            num_tokens=batch * length,
            firsts=torch.arange(0, batch * length, length),
            order=None,
        )
    lengths: list[int] = mask.sum(1).tolist()
    order = sorted(range(batch), key=lambda row: -lengths[row])
    in_order = order == list(range(batch))
    rows = torch.tensor(order)
    numbers = torch.arange(batch * length).view(batch, length)
    if not in_order:
        mask, numbers = mask[rows], numbers[rows]
    ordered = [lengths[row] for row in order]
    ends = torch.tensor(ordered).cumsum(0)
    return Packing(
        groups=[Group(len(list(same)), size) for size, same in groupby(ordered)],
        tokens=_filled(numbers[mask]),
        num_tokens=sum(ordered),
        firsts=F.pad(ends[:-1], (1, 0)),
        order=None if in_order else order,
    )


def _filled(tokens: Tensor) -> Tensor:
    """Return them, and after them as many copies of the first as fill them up."""
    step = (1 << (len(tokens) - 1).bit_length()) // (2 * _STEPS)
    spare = -len(tokens) % min(max(step, 1), _LONGEST_STEP)
    return torch.cat([tokens, tokens[:1].expand(spare)]) if spare else tokens


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
