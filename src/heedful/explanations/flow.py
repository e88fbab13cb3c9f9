"""Attention of all layers put together: rollout and flow (Abnar and Zuidema 2020).

A token of a layer is made half of what it attends to and half of itself, for that is what goes past
attention. Rollout multiplies these shares from layer to layer. Flow takes them as the widths of
pipes, and asks how much can flow from a token of the last layer to each token that was read.

Shapes: L layers, H heads, T tokens.
"""

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

MOST_TOKENS = 128
"""Of a text through which flow is computed: each of them takes a search through all layers."""

_UNIT = 2**30
"""What a share of 1 is in the whole numbers that the search computes with. A token's shares, which
sum to 1, just fit into 32 bits."""


def shares(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return how much of each token of a layer comes from each token of the layer below.

    Args:
        weights: of attention; those of heads that are gone are 0. Shape (L, H, T, T).

    Returns:
        Shape (L, T, T); each row sums to 1.
    """
    present = weights.any(axis=(2, 3)).sum(1)[:, None, None]  # heads that are there
    mean = weights.astype(np.float64).sum(1) / np.maximum(present, 1)  # (L, T, T)
    mixed = (mean + np.eye(weights.shape[-1])) / 2
    normal: NDArray[np.float64] = mixed / mixed.sum(-1, keepdims=True)
    return normal


def rollout(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return how much of each token of each layer comes from each token that was read.

    Args:
        weights: shape (L, H, T, T).

    Returns:
        Shape (L, T, T); each row sums to 1.
    """
    rolled = list(shares(weights))
    for layer in range(1, len(rolled)):
        rolled[layer] = rolled[layer] @ rolled[layer - 1]
    return np.stack(rolled)


def flow(weights: NDArray[np.floating], token: int) -> NDArray[np.float64]:
    """Return how much can flow from a token of the last layer to each token that was read.

    Args:
        weights: shape (L, H, T, T).
        token: the number of the token.

    Returns:
        Shape (T,).

    Raises:
        UserError: the text is too long.
    """
    layers, length = len(weights), weights.shape[-1]
    if length > MOST_TOKENS:
        raise UserError(
            f"flow is computed for at most {MOST_TOKENS} tokens; the text has {length}: "
            "give --max-length, or take another --method"
        )
    pipes = np.floor(shares(weights) * _UNIT).astype(np.int32)
    # Node l * T + t is token t below layer l; the last layer's are those at l = L.
    below, upper, lower = np.nonzero(pipes)
    # Slow to import, and hardly ever asked for.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    graph = coo_array(
        (pipes[below, upper, lower], ((below + 1) * length + upper, below * length + lower)),
        shape=((layers + 1) * length,) * 2,
    ).tocsr()
    graph = graph.astype(np.int32)
    source = layers * length + token
    flows = [maximum_flow(graph, source, sink).flow_value for sink in range(length)]
    return np.array(flows) / _UNIT
