"""Packing of several texts into one sequence without attention between them.

Shapes: B sequences, T length.
"""

import torch
from torch import Tensor


def packing_mask(
    input_ids: Tensor, real: Tensor | None, cls_id: int, *, causal: bool = False
) -> dict[str, Tensor]:
    """Return the block-diagonal mask and the position ids that separate a sequence's texts.

    Args:
        input_ids: sequences in which each text begins with ``cls_id``. Shape (B, T).
        real: True = a token, not padding; None if there is no padding. Shape (B, T).
        cls_id: id of the token that begins each text.
        causal: whether to mask all later tokens.

    Returns:
        Model inputs: an ``attention_mask``, shape (B, T, T), True within a text, and
        ``position_ids``, shape (B, T), from 0 at the start of each text. Empty if no sequence has
        several texts.
    """
    begins = input_ids == cls_id  # (B, T)
    if real is not None:
        begins &= real  # padding may be the same token
    text_indices = begins.cumsum(1)  # (B, T): index of each token's text in its sequence
    if text_indices.max() <= 1:
        return {}
    positions = torch.arange(input_ids.shape[1])
    starts = torch.where(begins, positions, 0).cummax(1).values  # (B, T)
    mask = text_indices[:, :, None] == text_indices[:, None, :]  # (B, T, T)
    if real is not None:
        mask &= real[:, None, :]
    if causal:
        mask = mask.tril()
    return {"attention_mask": mask, "position_ids": positions - starts}
