"""Which query may attend to which key: the only place where masks are made.

A mask is a bool tensor, True where a query may attend, broadcastable to (B, H, S, T).

Shapes: B batch, H heads, S query length, T key length.
"""

import torch
from torch import Tensor

from heedful.errors import UserError


def from_attention_mask(given: Tensor, *, batch: int, queries: int, keys: int) -> Tensor:
    """Turn the ``attention_mask`` that users give into a mask.

    Args:
        given: bool or integers 0 and 1. Shape (B, T), one row a sequence, or (B, S, T), one row a
            query.
        batch: B.
        queries: S.
        keys: T.

    Returns:
        Shape (B, 1, 1, T) or (B, 1, S, T), bool.

    Raises:
        UserError: another shape or type, or (where looking costs nothing) another value.
    """
    if given.shape not in ((batch, keys), (batch, queries, keys)):
        raise UserError(
            f"attention_mask has shape {tuple(given.shape)}; it must be "
            f"{(batch, keys)} or {(batch, queries, keys)}"
        )
    if given.dtype != torch.bool:
        _check_zeros_and_ones(given)
    mask = given.bool()
    return mask[:, None, None, :] if mask.ndim == 2 else mask[:, None, :, :]


def _check_zeros_and_ones(given: Tensor) -> None:
    allowed = "it must be bool, or integers that are 0 (do not attend) or 1 (attend)"
    if given.is_floating_point() or given.is_complex():
        raise UserError(f"attention_mask has type {given.dtype}; {allowed}")
    # Elsewhere than on a CPU the values could be seen only by waiting for the device.
    if given.device.type == "cpu" and not torch.compiler.is_compiling() and given.numel():
        low, high = given.aminmax()
        if low < 0 or high > 1:
            raise UserError(f"attention_mask holds values from {low} to {high}; {allowed}")
