"""Sequences one after the other, without the padding between them.

What a block does to each token alone needs no padding, and that is nearly all it does: only where
tokens attend to each other do sequences stand beside each other again. So a batch of texts of very
different lengths costs little more than one of texts that are all alike. Where `varlen.py` has a
kernel they stay as they are even there.

A product of a new size takes a CPU several times as long as the next of that size, for which it
finds the kernel made. So the packed tokens are filled up to a round number, with copies of one of
them that nothing comes of.

Shapes: B batch, S length with padding, N tokens with those that fill up, D any width.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.host import on_host, send
from heedful.layers.varlen import Bounds

LEAST_PADDING = 1 / 16
"""Share of padding in a batch from which on its tokens are packed: below it, moving them costs as
much as the padding."""

ROUND = 32
"""What the number of packed tokens is a multiple of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """Where the tokens of a batch stand."""

    rows: Tensor
    """Of each token, its place in the batch laid out as one row. Shape (N,)."""
    count: int
    """How many of them are no copies; they come first, in ascending order."""
    numbers: Tensor
    """Of each place, the number of its token; 0 of padding. Shape (B * S,)."""
    batch: int
    """B."""
    bounds: Bounds | None = None
    """Where texts start and end, if tokens are to attend to those of theirs without padding."""

    def pack(self, padded: Tensor) -> Tensor:
        """Return shape (1, N, D) for shape (B, S, D). Padding gets a gradient of zeros."""
        packed: Tensor = _Pack.apply(padded, self.rows, self.count)  # type: ignore[no-untyped-call]
        return packed

    def pad(self, packed: Tensor) -> Tensor:
        """Return shape (B, S, D) for shape (1, N, D).

        Padding gets the values of some token, which no gradient must come back from: hide it from
        all that is attended to, and drop what it computes.
        """
        padded: Tensor = _Pad.apply(packed, self.rows[: self.count], self.numbers)  # type: ignore[no-untyped-call]
        return padded.view(self.batch, -1, padded.shape[1])

    def restore(self, packed: Tensor) -> Tensor:
        """Return shape (B, S, D) for shape (1, N, D), with zeros for padding."""
        padded = packed.new_zeros(len(self.numbers), packed.shape[2])
        padded = padded.index_copy(0, self.rows[: self.count], packed[0, : self.count])
        return padded.view(self.batch, -1, packed.shape[2])

    def pack_ids(self, padded: Tensor) -> Tensor:
        """Return shape (1, N) for integers of shape (B, S)."""
        return padded.flatten()[self.rows][None]

    def at(self, packed: Tensor, places: Tensor) -> Tensor:
        """Return one token of each sequence, shape (B, 1, D), for shape (1, N, D).

        Args:
            packed: the tokens.
            places: where they stand in their sequences. Shape (B,).
        """
        numbers = self.numbers.view(self.batch, -1).gather(1, places[:, None])[:, 0]
        return packed[0].index_select(0, numbers)[:, None]

    def first(self, packed: Tensor) -> Tensor:
        """Return the first token of each sequence, shape (B, 1, D), for shape (1, N, D)."""
        starts = self.numbers.view(self.batch, -1)[:, 0]
        return packed[0].index_select(0, starts)[:, None]


def packing(tokens: Tensor, device: torch.device | None = None) -> Packing | None:
    """Tell where tokens stand; None where there is too little padding for that to be worth while.

    Args:
        tokens: bool, True for a token. Shape (B, S).
        device: where the answer is needed; None for that of the tokens.
    """
    device = tokens.device if device is None else device
    rows, numbers = _places(on_host(tokens))
    if not 0 < len(rows) <= (1 - LEAST_PADDING) * len(numbers):
        return None
    filled = torch.cat([rows, rows[:1].expand(-len(rows) % ROUND)])
    return Packing(
        rows=send(filled, device),
        count=len(rows),
        numbers=send(numbers, device),
        batch=len(tokens),
    )


def packing_of_texts(tokens: Tensor, device: torch.device) -> Packing | None:
    """Tell where tokens stand that attend to each other without padding, however little there is.

    Args:
        tokens: see ``packing``.
        device: the same.

    Returns:
        None where there are no tokens.
    """
    known = on_host(tokens)
    return _with_bounds(known, known.sum(1), device)


def packing_of_mask(mask: Tensor, device: torch.device, *, causal: bool) -> Packing | None:
    """Tell the same where a sequence may hold several texts, which do not attend to each other.

    Args:
        mask: bool, True where a token may attend. What does not attend to itself is padding, whose
            rows say nothing. Shape (B, S, S).
        device: where the answer is needed.
        causal: whether a token is to attend to none after it.

    Returns:
        None where there are no tokens, or where the mask says anything else.
    """
    known = on_host(mask)
    tokens = known.diagonal(dim1=1, dim2=2)  # (B, S)
    starts = known.byte().argmax(2).int()  # (B, S): of each token's text in its sequence
    same = (starts[:, :, None] == starts[:, None]) & tokens[:, None]
    if causal:
        same = same.tril()
    if not torch.equal(known[tokens], same[tokens]):
        return None
    numbers = starts + torch.arange(len(starts), device=starts.device)[:, None] * starts.shape[1]
    texts, lengths = torch.unique_consecutive(numbers[tokens], return_counts=True)
    if (texts.diff() <= 0).any():  # texts in each other's midst
        return None
    return _with_bounds(tokens, lengths, device)


def _with_bounds(tokens: Tensor, lengths: Tensor, device: torch.device) -> Packing | None:
    rows, numbers = _places(tokens)
    if not len(rows):
        return None
    starts = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return Packing(
        rows=send(rows, device),
        count=len(rows),
        numbers=send(numbers, device),
        batch=len(tokens),
        bounds=Bounds(send(starts, device), int(lengths.max())),
    )


def _places(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Packing.rows`` without copies, and ``Packing.numbers``."""
    flat = tokens.flatten()
    rows = flat.nonzero().squeeze(1)  # (N,)
    numbers = torch.zeros_like(flat, dtype=torch.int64)
    numbers[rows] = torch.arange(len(rows), device=rows.device)
    return rows, numbers


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padded: Tensor, rows: Tensor, count: int) -> Tensor:
        ctx.shape, ctx.count = padded.shape, count
        ctx.save_for_backward(rows[:count])
        return padded.flatten(0, 1).index_select(0, rows)[None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        padded = grad.new_zeros(ctx.shape)
        padded.flatten(0, 1).index_copy_(0, rows, grad[0, : ctx.count])
        return padded, None, None


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, rows: Tensor, numbers: Tensor) -> Tensor:
        ctx.shape = packed.shape
        ctx.save_for_backward(rows)
        return packed[0].index_select(0, numbers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        packed = grad.new_empty(ctx.shape)
        torch.index_select(grad, 0, rows, out=packed[0, : len(rows)])
        packed[0, len(rows) :] = 0
        return packed, None, None
