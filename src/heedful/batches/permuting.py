"""Which tokens permutation language modelling predicts, and in which order (Yang et al. 2019).

The tokens that are predicted come last in the order of a sequence's factorisation (section 2.3,
"partial prediction"), as spans (section 2.4): a span of L tokens, L drawn from 1 to 5, in a
stretch of K * L of which it takes the share 1 / K. The draws depend on (seed, epoch, index) alone.

Shapes: T length of a sequence, B sequences of a batch.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

LONGEST_SPAN = 5


def turns(
    ordinary: NDArray[np.bool_], share: float, *, seed: int, epoch: int, index: int
) -> NDArray[np.int64]:
    """Draw which tokens of a sequence are predicted, and in which order.

    Args:
        ordinary: False for special tokens, which are never predicted. Shape (T,).
        share: of the tokens, 1 / K.
        seed: determines the draws together with ``epoch`` and ``index``. Not negative.
        epoch: number of the epoch.
        index: number of the sequence.

    Returns:
        1 for the first that is predicted, 2 for the second, ...; 0 for all others. Shape (T,).
    """
    places = np.flatnonzero(ordinary)
    bits = np.random.PCG64(np.random.SeedSequence([seed, epoch, index]))
    # numpy promises its raw output; the modulus by a small number is close enough to uniform.
    lengths, offsets, order = bits.random_raw(3 * max(len(places), 1)).reshape(3, -1)
    chosen: list[int] = []
    start = 0
    while start < len(places):
        length = int(lengths[start] % LONGEST_SPAN) + 1
        stretch = min(round(length / share), len(places) - start)
        length = min(length, max(round(stretch * share), 1))
        first = start + int(offsets[start] % (stretch - length + 1))
        chosen += range(first, first + length)
        start += stretch
    result = np.zeros(len(ordinary), np.int64)
    result[places[chosen]] = np.argsort(np.argsort(order[chosen], kind="stable")) + 1
    return result


def hidden_by(turns: Tensor) -> Tensor:
    """Return what each token must not see: those predicted that do not come before it.

    Args:
        turns: see the function of this name; 0 for a token that is not predicted. Shape (B, T).

    Returns:
        Bool, True where the token of a row must not see that of a column. Shape (B, T, T).
    """
    return (turns[:, None] > 0) & (turns[:, None] >= turns[:, :, None])
