"""Attention masks: which query may attend to which key. Masks are created only here.

A mask is a bool tensor, True where a query may attend, broadcastable to (B, H, S, T).

Shapes: B batch, H heads, S query length, T key length.
"""

import torch
from torch import Tensor

from heedful.errors import UserError


def by_sequence(attention_mask: Tensor | None, batch: int) -> Tensor | None:
    """Return a mask in shape (B, T) if it has one row per sequence in another shape.

    Args:
        attention_mask: shape (B or 1, T), or (B or 1, 1, T). Any other shape stays as it is.
        batch: B.
    """
    if attention_mask is None or attention_mask.ndim not in (2, 3):
        return attention_mask
    if attention_mask.ndim == 3 and attention_mask.shape[1] == 1:
        attention_mask = attention_mask[:, 0]
    is_shared = attention_mask.shape[0] == 1 != batch
    return attention_mask.expand(batch, *attention_mask.shape[1:]) if is_shared else attention_mask


def from_attention_mask(
    attention_mask: Tensor, *, batch: int, queries: int, keys: int, name: str = "attention_mask"
) -> Tensor:
    """Return the internal mask for an attention mask given by a user.

    Args:
        attention_mask: bool, or numbers 0 and 1. Shape (B, T), one row per sequence, or (B, S, T),
            one row per query.
        batch: B.
        queries: S.
        keys: T.
        name: name of the mask in error messages.

    Returns:
        Shape (B, 1, 1, T) or (B, 1, S, T), bool.

    Raises:
        UserError: wrong shape or dtype, or (if checking does not block) wrong values.
    """
    if attention_mask.shape not in ((batch, keys), (batch, queries, keys)):
        raise UserError(
            f"{name} has shape {tuple(attention_mask.shape)}; it must be "
            f"{(batch, keys)} or {(batch, queries, keys)}"
        )
    if attention_mask.dtype != torch.bool:
        _check_zeros_and_ones(attention_mask, name)
    mask = attention_mask.bool()
    return mask[:, None, None, :] if mask.ndim == 2 else mask[:, None, :, :]


def for_self_attention(
    attention_mask: Tensor | None,
    *,
    batch: int,
    queries: int,
    keys: int,
    causal: bool,
    device: torch.device,
) -> Tensor | None:
    """Return the mask for self-attention.

    Args:
        attention_mask: None, or see ``from_attention_mask``.
        batch: B.
        queries: S; the queries are the last S of the keys.
        keys: T.
        causal: whether to use a causal mask. Ignored if ``attention_mask`` has one row per query,
            as in the reference. This allows bidirectional attention within a prefix.
        device: device of the mask.

    Returns:
        Broadcastable to (B, 1, S, T), bool; None if every query may attend to every key.
    """
    mask = None
    if attention_mask is not None:
        mask = from_attention_mask(attention_mask, batch=batch, queries=queries, keys=keys)
    if not causal or queries == 1 or (attention_mask is not None and attention_mask.ndim == 3):
        return mask
    past = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    return past[None, None] if mask is None else past & mask


def as_scores(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what a mask adds to attention scores: 0, or where it is 0 or False the lowest number.

    Args:
        mask: bool, or numbers from 0 to 1.
        dtype: dtype of the scores.
    """
    return (1.0 - mask.to(dtype)) * torch.finfo(dtype).min


def _check_zeros_and_ones(attention_mask: Tensor, name: str) -> None:
    if torch.compiler.is_compiling() or not attention_mask.numel():
        return
    allowed = "it must be bool, or numbers that are 0 (do not attend) or 1 (attend)"
    if attention_mask.is_floating_point() or attention_mask.is_complex():
        # Any other weight would count as 1. So these are checked on every device.
        others = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
        if len(others):
            raise UserError(f"{name} holds {others[0].item():g}; {allowed}")
    elif attention_mask.device.type == "cpu":  # elsewhere, reading the values would block the host
        low, high = attention_mask.aminmax()
        if low < 0 or high > 1:
            raise UserError(f"{name} holds values from {low} to {high}; {allowed}")
