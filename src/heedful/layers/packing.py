"""Packed (unpadded) sequences: the tokens of a batch concatenated without padding.

Most of a block works on each token separately and needs no padding. Only attention pads the
sequences again. So a batch of texts of very different lengths costs little more than a batch of
equal lengths. If `varlen.py` has a kernel, the sequences stay packed in attention, too.

On a CPU, the first matrix product of a new size takes several times as long as the next ones: it
creates the kernel. So the number of packed tokens is rounded up with copies of one
token. The copies have no effect.

Shapes: B batch, S length with padding, N packed tokens including the copies, D any width.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.layers.varlen import Bounds

LEAST_PADDING = 1 / 16
"""Smallest share of padding for which a batch is packed. Below it, moving the tokens costs as much
as the padding."""

MULTIPLE_OF = 32
"""The number of packed tokens is a multiple of this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """The mapping between a padded batch and its packed tokens."""

    indices: Tensor
    """Index of each packed token in the flattened batch. Shape (N,)."""
    num_tokens: int
    """Number of packed tokens without copies; these come first, in ascending order."""
    inverse: Tensor
    """Packed index of each position in the flattened batch; 0 for padding. Shape (B * S,)."""
    batch: int
    """B."""
    bounds: Bounds | None = None
    """Bounds of the texts if attention works on packed tokens; None if it pads them."""

    def pack(self, padded: Tensor) -> Tensor:
        """Return shape (1, N, D) for shape (B, S, D). Padding gets zero gradients."""
        packed: Tensor = _Pack.apply(padded, self.indices, self.num_tokens)  # type: ignore[no-untyped-call]
        return packed

    def pad(self, packed: Tensor) -> Tensor:
        """Return shape (B, S, D) for shape (1, N, D).

        Padding gets the values of an arbitrary token. No gradient may come back from padding: mask
        it as keys, and discard its outputs.
        """
        padded: Tensor = _Pad.apply(packed, self.indices[: self.num_tokens], self.inverse)  # type: ignore[no-untyped-call]
        return padded.view(self.batch, -1, padded.shape[1])

    def restore(self, packed: Tensor) -> Tensor:
        """Return shape (B, S, D) for shape (1, N, D), with zeros for padding."""
        padded = packed.new_zeros(len(self.inverse), packed.shape[2])
        padded = padded.index_copy(0, self.indices[: self.num_tokens], packed[0, : self.num_tokens])
        return padded.view(self.batch, -1, packed.shape[2])

    def pack_ids(self, padded: Tensor) -> Tensor:
        """Return shape (1, N) for integers of shape (B, S)."""
        return padded.flatten()[self.indices][None]

    def gather(self, packed: Tensor, positions: Tensor) -> Tensor:
        """Return one token of each sequence, shape (B, 1, D), for shape (1, N, D).

        Args:
            packed: the packed hidden states.
            positions: position of the token in each sequence. Shape (B,).
        """
        indices = self.inverse.view(self.batch, -1).gather(1, positions[:, None])[:, 0]
        return packed[0].index_select(0, indices)[:, None]

    def first(self, packed: Tensor) -> Tensor:
        """Return the first token of each sequence, shape (B, 1, D), for shape (1, N, D)."""
        starts = self.inverse.view(self.batch, -1)[:, 0]
        return packed[0].index_select(0, starts)[:, None]


def packing(tokens: Tensor, device: torch.device | None = None) -> Packing | None:
    """Return the packing of a batch, or None if it has too little padding to gain from packing.

    Args:
        tokens: bool, True for a token, False for padding. Shape (B, S).
        device: device of the result; None for the device of the tokens.
    """
    device = tokens.device if device is None else device
    indices, inverse = _indices(get_host_copy(tokens))
    if not 0 < len(indices) <= (1 - LEAST_PADDING) * len(inverse):
        return None
    rounded_up = torch.cat([indices, indices[:1].expand(-len(indices) % MULTIPLE_OF)])
    return Packing(
        indices=copy_to_device(rounded_up, device),
        num_tokens=len(indices),
        inverse=copy_to_device(inverse, device),
        batch=len(tokens),
    )


def packing_of_texts(tokens: Tensor, device: torch.device) -> Packing | None:
    """Return a packing with bounds, for attention without padding. Any share of padding will do.

    Args:
        tokens: see ``packing``.
        device: device of the result.

    Returns:
        None if there are no tokens.
    """
    host_tokens = get_host_copy(tokens)
    return _packing_with_bounds(host_tokens, host_tokens.sum(1), device)


def packing_of_mask(mask: Tensor, device: torch.device, *, causal: bool) -> Packing | None:
    """Return a packing with bounds for sequences of several texts with a block-diagonal mask.

    Args:
        mask: bool, True where a token may attend. A token that does not attend to itself is
            padding, and its row is ignored. Shape (B, S, S).
        device: device of the result.
        causal: whether attention is to be causal.

    Returns:
        None if there are no tokens, or if the mask does not have this form.
    """
    host_mask = get_host_copy(mask)
    tokens = host_mask.diagonal(dim1=1, dim2=2)  # (B, S)
    starts = host_mask.byte().argmax(2).int()  # (B, S): start of each token's text in its sequence
    expected = (starts[:, :, None] == starts[:, None]) & tokens[:, None]
    if causal:
        expected = expected.tril()
    if not torch.equal(host_mask[tokens], expected[tokens]):
        return None
    text_ids = starts + torch.arange(len(starts), device=starts.device)[:, None] * starts.shape[1]
    texts, lengths = torch.unique_consecutive(text_ids[tokens], return_counts=True)
    if (texts.diff() <= 0).any():  # interleaved texts
        return None
    return _packing_with_bounds(tokens, lengths, device)


def _packing_with_bounds(tokens: Tensor, lengths: Tensor, device: torch.device) -> Packing | None:
    indices, inverse = _indices(tokens)
    if not len(indices):
        return None
    starts = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return Packing(
        indices=copy_to_device(indices, device),
        num_tokens=len(indices),
        inverse=copy_to_device(inverse, device),
        batch=len(tokens),
        bounds=Bounds(copy_to_device(starts, device), int(lengths.max())),
    )


def _indices(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Packing.indices`` without the copies, and ``Packing.inverse``."""
    flat = tokens.flatten()
    indices = flat.nonzero().squeeze(1)  # (N,)
    inverse = torch.zeros_like(flat, dtype=torch.int64)
    inverse[indices] = torch.arange(len(indices), device=indices.device)
    return indices, inverse


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padded: Tensor, indices: Tensor, count: int) -> Tensor:
        ctx.shape, ctx.count = padded.shape, count
        ctx.save_for_backward(indices[:count])
        return padded.flatten(0, 1).index_select(0, indices)[None]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (indices,) = ctx.saved_tensors
        padded = grad.new_zeros(ctx.shape)
        padded.flatten(0, 1).index_copy_(0, indices, grad[0, : ctx.count])
        return padded, None, None


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, indices: Tensor, inverse: Tensor) -> Tensor:
        ctx.shape = packed.shape
        ctx.save_for_backward(indices)
        return packed[0].index_select(0, inverse)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (indices,) = ctx.saved_tensors
        packed = grad.new_empty(ctx.shape)
        if torch.is_grad_enabled():  # for second derivatives, which `out` does not allow
            rest = packed.new_zeros(packed[0, len(indices) :].shape)
            return torch.cat([grad.index_select(0, indices), rest])[None], None, None
        torch.index_select(grad, 0, indices, out=packed[0, : len(indices)])
        packed[0, len(indices) :] = 0
        return packed, None, None
