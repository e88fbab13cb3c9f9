"""Variable-length attention of packed texts by torch's kernel for GPUs.

The kernel supports no bias, and only half precision. Otherwise sequences are padded for attention;
see ``packing.py``. It is the kernel of ``torch.nn.attention.varlen``, called directly. The wrapper
there has no dropout, and costs a millisecond per block on the host.

Shapes: B texts, N tokens of all texts, H heads, K head width; R rows of S tokens, R * S = N.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_MAX_HEAD_WIDTH = 256
"""The largest K that the kernel supports; K must be a multiple of 8."""

_AMPERE = (8, 0)
"""Compute capability of the first GPUs that the kernel supports."""


class Bounds(NamedTuple):
    """Start and end of each text in a packed sequence."""

    cu_seqlens: Tensor
    """Cumulative sequence lengths: 0, then the end of each text. Shape (B + 1,), int32."""
    max_seqlen: int
    """The length of the longest text, or an upper bound."""

    @property
    def single(self) -> "Bounds":
        """Return the bounds of the same number of texts of one token each."""
        starts = torch.arange(
            len(self.cu_seqlens), dtype=torch.int32, device=self.cu_seqlens.device
        )
        return Bounds(starts, 1)


@lru_cache
def has_kernel(device: torch.device, dtype: torch.dtype, head_width: int) -> bool:
    """Return whether the kernel supports a device, a dtype and a head width."""
    half = dtype in (torch.bfloat16, torch.float16)
    if device.type != "cuda" or not half or head_width % 8 or head_width > _MAX_HEAD_WIDTH:
        return False
    recent = torch.cuda.get_device_capability(device) >= _AMPERE
    return recent and torch.backends.cuda.is_flash_attention_available()


flash_attention = torch.ops.aten._flash_attention_forward
"""Torch's FlashAttention kernel (Dao 2023), which supports autograd."""


def attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    queries: Bounds,
    keys: Bounds,
    causal: bool,
    dropout: float = 0.0,
) -> Tensor:
    """Return the softmax-weighted values of packed texts; tokens attend within their text.

    Args:
        query: the queries of all texts. Shape (R, H, S, K).
        key: the keys of the same texts. Shape (1, H, N, K).
        value: shape (1, H, N, K).
        queries: bounds of the queries.
        keys: bounds of the keys.
        causal: whether attention is causal.
        dropout: dropout probability of the weights.

    Returns:
        Shape (R, H, S, K).
    """
    rows, _, length, _ = query.shape
    query, key, value = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))  # (N, H, K)
    mixed: Tensor = flash_attention(
        query,
        key,
        value,
        queries.cu_seqlens,
        keys.cu_seqlens,
        queries.max_seqlen,
        keys.max_seqlen,
        dropout,
        causal,
        False,  # do not return the dropout mask
    )[0]
    return mixed.view(rows, length, *mixed.shape[1:]).transpose(1, 2)
