"""Choose prediction targets and their order in permutation language modelling (Yang et al. 2019).

The predicted tokens come last in a sequence's factorisation order (section 2.3, "partial
prediction"). They are spans (section 2.4): a span of L tokens, L drawn from 1 to 5, is placed in a
stretch of K * L tokens and covers 1 / K of it. The draws depend only on (seed, epoch, index).

Shapes: T length of a sequence, B sequences of a batch.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

LONGEST_SPAN = 5


def prediction_order(
    ordinary: NDArray[np.bool_], share: float, *, seed: int, epoch: int, index: int
) -> NDArray[np.int64]:
    """Draw the tokens of a sequence to predict, and their order.

    Args:
        ordinary: False for special tokens, which are never predicted. Shape (T,).
        share: share of the tokens to predict, 1 / K.
        seed: determines the draws, with ``epoch`` and ``index``. Not negative.
        epoch: number of the epoch.
        index: number of the sequence.

    Returns:
        1 for the first token to predict, 2 for the second, ...; 0 for all other tokens. Shape (T,).
    """
    positions = np.flatnonzero(ordinary)
    generator = np.random.PCG64(np.random.SeedSequence([seed, epoch, index]))
    # numpy guarantees its raw output. The modulus by a small number is close enough to uniform.
    lengths, offsets, order = generator.random_raw(3 * max(len(positions), 1)).reshape(3, -1)
    chosen: list[int] = []
    start = 0
    while start < len(positions):
        length = int(lengths[start] % LONGEST_SPAN) + 1
        stretch = min(round(length / share), len(positions) - start)
        length = min(length, max(round(stretch * share), 1))
        first = start + int(offsets[start] % (stretch - length + 1))
        chosen += range(first, first + length)
        start += stretch
    result = np.zeros(len(ordinary), np.int64)
    result[positions[chosen]] = np.argsort(np.argsort(order[chosen], kind="stable")) + 1
    return result


def permutation_mask(turns: Tensor) -> Tensor:
    """Return the mask that hides from each token the targets not predicted before it.

    Args:
        turns: prediction order from the function `prediction_order`; 0 = not predicted. Shape (B,
            T).

    Returns:
        Bool, True where the row's token must not attend to the column's token. Shape (B, T, T).
    """
    return (turns[:, None] > 0) & (turns[:, None] >= turns[:, :, None])
