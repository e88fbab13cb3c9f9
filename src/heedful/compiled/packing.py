"""Pack the tokens of a padded batch for a compiled encoder.

For each number of rows of a product, oneDNN compiles a kernel, which takes a millisecond and stays
in memory. So the number of tokens is rounded up to one of a few sizes. The extra tokens are copies
of one token that belong to no sequence.

Shapes: B batch, S length, N packed tokens including the copies, D model width.
"""

from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import Group

_SIZES_PER_DOUBLING = 8
"""Number of sizes between two powers of two, so that at most an eighth of the tokens are copies."""

_MAX_STEP = 64
"""Largest difference between two sizes. Computing more copies would take longer than compiling a
kernel."""


class Packing(NamedTuple):
    """The packed tokens of a padded batch, and their order."""

    groups: list[Group]
    tokens: Tensor | None
    """Index of each token in the flattened batch; None for all tokens in order. Shape (N,)."""
    num_tokens: int
    """Number of tokens without copies; these come first."""
    firsts: Tensor
    """Index of each sequence's first token among the packed tokens. Shape (B,)."""
    order: list[int] | None
    """Batch index of each sorted sequence; None if they are in order."""

    def of_tokens(self, padded: Tensor) -> Tensor:
        """Return shape (N, D) for shape (B, S, D)."""
        flat = padded.reshape(-1, padded.shape[2])
        return flat if self.tokens is None else flat[self.tokens]


def pack(mask: Tensor | None, batch: int, length: int) -> Packing | None:
    """Remove padding, and sort the sequences by length.

    Args:
        mask: bool, True for a token. Shape (B, S), or None if there is no padding.
        batch: B.
        length: S.

    Returns:
        None if a sequence does not begin with a token.
    """
    if mask is not None and not bool(mask[:, 0].all()):
        return None
    return _pack_by_length(mask, batch, length)


def pack_padded_sides(mask: Tensor | None, batch: int, length: int) -> Packing | None:
    """Like ``pack``, but allow padding on the left; None if a sequence has padding inside."""
    if mask is not None and has_inner_padding(mask):
        return None
    return _pack_by_length(mask, batch, length)


def has_inner_padding(mask: Tensor) -> bool:
    """Return whether a sequence has padding between its tokens, or no token. Shape (B, S)."""
    return bool(((F.pad(mask, (1, 0))[:, :-1] < mask).sum(1) != 1).any())


def _pack_by_length(mask: Tensor | None, batch: int, length: int) -> Packing:
    if mask is None:
        tokens = _round_up(torch.arange(batch * length))
        return Packing(
            groups=[Group(batch, length)],
            tokens=tokens if len(tokens) > batch * length else None,
            num_tokens=batch * length,
            firsts=torch.arange(0, batch * length, length),
            order=None,
        )
    lengths: list[int] = mask.sum(1).tolist()
    order = sorted(range(batch), key=lambda row: -lengths[row])
    is_sorted = order == list(range(batch))
    rows = torch.tensor(order)
    indices = torch.arange(batch * length).view(batch, length)
    if not is_sorted:
        mask, indices = mask[rows], indices[rows]
    sorted_lengths = [lengths[row] for row in order]
    ends = torch.tensor(sorted_lengths).cumsum(0)
    return Packing(
        groups=[Group(len(list(run)), size) for size, run in groupby(sorted_lengths)],
        tokens=_round_up(indices[mask]),
        num_tokens=sum(sorted_lengths),
        firsts=F.pad(ends[:-1], (1, 0)),
        order=None if is_sorted else order,
    )


def _round_up(tokens: Tensor) -> Tensor:
    """Return the tokens, followed by copies of the first token up to the next size."""
    step = (1 << (len(tokens) - 1).bit_length()) // (2 * _SIZES_PER_DOUBLING)
    num_copies = -len(tokens) % min(max(step, 1), _MAX_STEP)
    return torch.cat([tokens, tokens[:1].expand(num_copies)]) if num_copies else tokens


def padding_of_causal(mask: Tensor) -> Tensor | None:
    """Return the padding mask contained in a causal mask.

    Args:
        mask: bool. Shape (B or 1, 1, S, S).

    Returns:
        Shape (B or 1, S); None if the mask is not a causal mask combined with a padding mask.
    """
    padding_mask = mask[:, 0, -1]
    causal_mask = torch.ones_like(mask[0, 0]).tril()
    return padding_mask if torch.equal(mask[:, 0], padding_mask[:, None] & causal_mask) else None
