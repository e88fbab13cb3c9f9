"""From texts to what an engine computes: tokenized at once, sorted by length, batches of 32."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from benchmarks.peers.engines import Engine

    Array = np.ndarray[Any, np.dtype[Any]]

BATCH = 32


def compute(
    engine: "Engine",
    encodings: Sequence[Any],
    keep: "Callable[[Any, tuple[Array, ...]], Any]" = lambda encoding, output: output,
) -> list[Any]:
    """Return what the engine computes for each encoding, or what is kept of it, in their order."""
    import numpy as np

    order = sorted(range(len(encodings)), key=lambda item: len(encodings[item].ids))
    outputs: list[Any] = [None] * len(encodings)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        shape = len(rows), len(encodings[rows[-1]].ids)
        ids, mask, types = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for at, row in enumerate(rows):
            encoding = encodings[row]
            length = len(encoding.ids)
            ids[at, :length], types[at, :length] = encoding.ids, encoding.type_ids
            mask[at, :length] = 1
        computed = engine(ids, mask, types)
        for at, row in enumerate(rows):
            outputs[row] = keep(encodings[row], tuple(output[at] for output in computed))
    return outputs
