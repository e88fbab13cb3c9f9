"""Attention of texts one after the other, without padding between them: torch's kernel for a GPU.

It takes no bias, and half precision alone. Elsewhere sequences are padded to attend to each other;
see ``packing.py``. The kernel is that of ``torch.nn.attention.varlen``, called without what is
around it there: that drops no weights, and takes the host a millisecond for each block.

Shapes: B texts, N tokens of all of them, H heads, K head width; R rows of S tokens, R * S = N.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_WIDEST = 256
"""The greatest K of the kernel; it must be a multiple of 8."""

_AMPERE = (8, 0)
"""The first generation of GPUs for which it is made."""


class Bounds(NamedTuple):
    """Where texts start and end that stand one after the other."""

    starts: Tensor
    """Where each text starts, and the last one ends. Shape (B + 1,), int32."""
    longest: int
    """At least the length of the longest."""

    @property
    def single(self) -> "Bounds":
        """Return those of as many texts of one token."""
        numbers = torch.arange(len(self.starts), dtype=torch.int32, device=self.starts.device)
        return Bounds(numbers, 1)


@lru_cache
def has_kernel(device: torch.device, dtype: torch.dtype, head_width: int) -> bool:
    """Tell whether the kernel runs on a device, in a format, for heads of a width."""
    half = dtype in (torch.bfloat16, torch.float16)
    if device.type != "cuda" or not half or head_width % 8 or head_width > _WIDEST:
        return False
    recent = torch.cuda.get_device_capability(device) >= _AMPERE
    return recent and torch.backends.cuda.is_flash_attention_available()


flash_attention = torch.ops.aten._flash_attention_forward
"""Torch's kernel (Dao 2023), whose derivative torch knows."""


def attend_texts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    queries: Bounds,
    keys: Bounds,
    causal: bool,
    dropout: float = 0.0,
) -> Tensor:
    """Mix the values of each text by how well their keys fit its queries.

    Args:
        query: the queries of one text after the other. Shape (R, H, S, K).
        key: shape (1, H, N, K), of the same texts.
        value: shape (1, H, N, K).
        queries: of the queries.
        keys: of the keys.
        causal: whether a query may attend to no key after it.
        dropout: probability with which a weight is dropped.

    Returns:
        Shape (R, H, S, K).
    """
    rows, _, length, _ = query.shape
    query, key, value = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))  # (N, H, K)
    mixed: Tensor = flash_attention(
        query,
        key,
        value,
        queries.starts,
        keys.starts,
        queries.longest,
        keys.longest,
        dropout,
        causal,
        False,  # what was drawn is not shown
    )[0]
    return mixed.view(rows, length, *mixed.shape[1:]).transpose(1, 2)
