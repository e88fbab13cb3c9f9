"""The default number of tokens per batch at inference."""

import torch

from heedful.layers.feedforward import Intermediate
from heedful.models.model import Model

_ON_GPU = (2**13, 2**16)
"""Minimum and maximum number of tokens on a GPU, where more are faster; see ``docs/gpu.md``."""
_BYTES_EACH = 2**21
"""GPU memory per token."""
_ON_CPU = 4096
"""Maximum number of tokens on a CPU. More overflow the CPU caches; fewer make matrix products too
small to run efficiently."""
_KEPT_BYTES = 2**25
"""Largest block that glibc keeps after it is freed. A larger block returns to the system and costs
a page fault per 4 KiB at every matrix product."""


def max_batch_tokens(model: Model) -> int:
    """Return the maximum number of tokens of a batch, a power of two.

    It depends on the device's memory on a GPU and on the widest feed-forward layer on a CPU.
    """
    weight = next(model.parameters())
    if weight.device.type == "cuda":
        memory = torch.cuda.get_device_properties(weight.device).total_memory
        low, high = _ON_GPU
        return min(max(1 << ((memory // _BYTES_EACH).bit_length() - 1), low), high)
    widths = [part.dense.out_features for part in model.modules() if isinstance(part, Intermediate)]
    kept = _KEPT_BYTES // (max(widths, default=1) * weight.element_size())
    return min(_ON_CPU, 1 << (kept.bit_length() - 1))
