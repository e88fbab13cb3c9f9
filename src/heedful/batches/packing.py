"""Several texts in one sequence that do not attend to each other.

Shapes: B sequences, T length.
"""

import torch
from torch import Tensor


def keep_apart(
    input_ids: Tensor, real: Tensor | None, cls_id: int, *, causal: bool = False
) -> dict[str, Tensor]:
    """Return the mask and the positions that keep the texts of a sequence apart.

    Args:
        input_ids: sequences in which each text begins with ``cls_id``. Shape (B, T).
        real: True = a token, not padding; None if there is no padding. Shape (B, T).
        cls_id: id of the token that begins each text.
        causal: whether a token may attend to none after it.

    Returns:
        Inputs of the model: an ``attention_mask``, shape (B, T, T), True within a text, and
        ``position_ids``, shape (B, T), from 0 at the start of each text. Empty if no sequence holds
        several texts.
    """
    begins = input_ids == cls_id  # (B, T)
    if real is not None:
        begins &= real  # padding may be the same token
    number = begins.cumsum(1)  # (B, T): the number of each token's text in its sequence
    if number.max() <= 1:
        return {}
    positions = torch.arange(input_ids.shape[1])
    starts = torch.where(begins, positions, 0).cummax(1).values  # (B, T)
    mask = number[:, :, None] == number[:, None, :]  # (B, T, T)
    if real is not None:
        mask &= real[:, None, :]
    if causal:
        mask = mask.tril()
    return {"attention_mask": mask, "position_ids": positions - starts}
