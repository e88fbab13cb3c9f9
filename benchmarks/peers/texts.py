"""Run an engine on tokenized texts, sorted by length, in batches of 32."""

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
    """Return the engine's outputs for each encoding, in the original order.

    Args:
        engine: The engine.
        encodings: The tokenized texts.
        keep: Reduces an encoding and its outputs to the part that is kept.
    """
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
