"""How many tokens a model answers for at once, where the user does not say."""

from heedful.layers.feedforward import Intermediate
from heedful.models.model import Model

_ON_GPU = 8192
_ON_CPU = 4096
"""More of them leave the caches of a CPU, and fewer do not fill its products."""
_KEPT_BYTES = 2**25
"""The largest block that glibc keeps when it is freed: a larger one is handed back to the system,
and costs a page fault for each 4 KiB of it at every product."""


def tokens_at_once(model: Model) -> int:
    """Return the most tokens of a batch: a power of two, by the size of the largest product."""
    weight = next(model.parameters())
    if weight.device.type != "cpu":
        return _ON_GPU
    widths = [part.dense.out_features for part in model.modules() if isinstance(part, Intermediate)]
    kept = _KEPT_BYTES // (max(widths, default=1) * weight.element_size())
    return min(_ON_CPU, 1 << (kept.bit_length() - 1))
