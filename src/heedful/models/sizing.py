"""How many tokens a model answers for at once, where the user does not say."""

import torch

from heedful.layers.feedforward import Intermediate
from heedful.models.model import Model

_ON_GPU = (2**13, 2**16)
"""The fewest and the most on a GPU, which is faster the more there are; see ``docs/gpu.md``."""
_BYTES_EACH = 2**21
"""Memory of a GPU for each of them."""
_ON_CPU = 4096
"""More of them leave the caches of a CPU, and fewer do not fill its products."""
_KEPT_BYTES = 2**25
"""The largest block that glibc keeps when it is freed: a larger one is handed back to the system,
and costs a page fault for each 4 KiB of it at every product."""


def tokens_at_once(model: Model) -> int:
    """Return the most tokens of a batch: a power of two, by the size of the largest product."""
    weight = next(model.parameters())
    if weight.device.type == "cuda":
        memory = torch.cuda.get_device_properties(weight.device).total_memory
        least, most = _ON_GPU
        return min(max(1 << ((memory // _BYTES_EACH).bit_length() - 1), least), most)
    widths = [part.dense.out_features for part in model.modules() if isinstance(part, Intermediate)]
    kept = _KEPT_BYTES // (max(widths, default=1) * weight.element_size())
    return min(_ON_CPU, 1 << (kept.bit_length() - 1))
