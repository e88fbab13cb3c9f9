"""Combine the attention of all layers: attention rollout and flow (Abnar and Zuidema 2020).

Half of a token's output comes from its attention and half from itself, through the residual
connection. Rollout multiplies these shares from layer to layer. Flow uses them as edge capacities,
and computes the maximum flow from a token of the last layer to each input token.

Shapes: L layers, H heads, T tokens.
"""

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

MAX_TOKENS = 128
"""Maximum tokens of a text for flow, because each token needs a search through all layers."""

_UNIT = 2**30
"""Integer representation of a share of 1 in the max-flow search. A token's shares, which sum to 1,
just fit into 32 bits."""


def shares(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the contribution of each token of a layer to each token of the next layer.

    Args:
        weights: attention weights; weights of pruned heads are 0. Shape (L, H, T, T).

    Returns:
        Shape (L, T, T); each row sums to 1.
    """
    num_heads = weights.any(axis=(2, 3)).sum(1)[:, None, None]  # heads that are not pruned
    mean = weights.astype(np.float64).sum(1) / np.maximum(num_heads, 1)  # (L, T, T)
    mixed = (mean + np.eye(weights.shape[-1])) / 2
    normalized: NDArray[np.float64] = mixed / mixed.sum(-1, keepdims=True)
    return normalized


def rollout(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the contribution of each input token to each token of each layer.

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
    """Return the maximum flow from a token of the last layer to each input token.

    Args:
        weights: shape (L, H, T, T).
        token: index of the token.

    Returns:
        Shape (T,).

    Raises:
        UserError: the text is too long.
    """
    layers, length = len(weights), weights.shape[-1]
    if length > MAX_TOKENS:
        raise UserError(
            f"flow is computed for at most {MAX_TOKENS} tokens; the text has {length}: give "
            "--max-length, or choose another --method"
        )
    capacities = np.floor(shares(weights) * _UNIT).astype(np.int32)
    # Node l * T + t is input token t of layer l. The outputs of the last layer are at l = L.
    layer_indices, upper, lower = np.nonzero(capacities)
    # Imported lazily: slow to import and rarely needed.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    graph = coo_array(
        (
            capacities[layer_indices, upper, lower],
            ((layer_indices + 1) * length + upper, layer_indices * length + lower),
        ),
        shape=((layers + 1) * length,) * 2,
    ).tocsr()
    graph = graph.astype(np.int32)
    source = layers * length + token
    flows = [maximum_flow(graph, source, sink).flow_value for sink in range(length)]
    return np.array(flows) / _UNIT
