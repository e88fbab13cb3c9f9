"""Several texts in one sequence that do not attend to each other.

Shapes: B sequences, T length.
"""

import torch
from torch import Tensor


def keep_apart(input_ids: Tensor, real: Tensor | None, cls_id: int) -> dict[str, Tensor]:
    """Return what keeps the texts of each sequence apart: a mask and positions of their own.

    Args:
        input_ids: sequences in which each text begins with ``cls_id``. Shape (B, T).
        real: True = a token, not padding; None where nothing is padded. Shape (B, T).
        cls_id: what each text begins with.

    Returns:
        Inputs of the model: an ``attention_mask``, shape (B, T, T), True within a text, and
        ``position_ids``, shape (B, T), from 0 at the start of each text. None of them where no
        sequence holds several texts.
    """
    begins = input_ids == cls_id  # (B, T)
    number = begins.cumsum(1)  # (B, T): which text of its sequence a token is of
    if number.max() <= 1:
        return {}
    places = torch.arange(input_ids.shape[1])
    starts = torch.where(begins, places, 0).cummax(1).values  # (B, T)
    mask = number[:, :, None] == number[:, None, :]  # (B, T, T)
    if real is not None:
        mask &= real[:, None, :]
    return {"attention_mask": mask, "position_ids": places - starts}
