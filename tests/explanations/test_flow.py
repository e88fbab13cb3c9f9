"""Rollout and flow against computations by hand and by another library."""

import networkx
import numpy as np
import pytest

from heedful.errors import UserError
from heedful.explanations.flow import MAX_TOKENS, flow, rollout, shares


def random_attention(layers: int, heads: int, tokens: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(layers, heads, tokens, tokens)) * 2
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def test_rollout_by_hand() -> None:
    weights = np.array(
        [
            [[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]],
            [[[0.2, 0.8], [0.6, 0.4]], [[0.4, 0.6], [1.0, 0.0]]],
        ],
        dtype=np.float32,
    )
    first = [[0.75, 0.25], [0.25, 0.75]]  # half of the mean of the heads, half of the token itself
    second = [[0.65, 0.35], [0.4, 0.6]]
    rolled = rollout(weights)
    np.testing.assert_allclose(rolled[0], first, atol=1e-6)
    np.testing.assert_allclose(rolled[1], np.array(second) @ first, atol=1e-6)


def test_heads_that_are_gone_do_not_count() -> None:
    weights = random_attention(2, 3, 4)
    weights[0, 1] = 0
    shared = shares(weights)
    np.testing.assert_allclose(shared[0], (weights[0, [0, 2]].mean(0) + np.eye(4)) / 2, atol=1e-6)
    np.testing.assert_allclose(shared.sum(-1), np.ones((2, 4)))


@pytest.mark.parametrize(("layers", "tokens"), [(1, 3), (2, 4), (4, 6)])
def test_flow_is_that_of_another_algorithm(layers: int, tokens: int) -> None:
    weights = random_attention(layers, 2, tokens, seed=layers)
    shared = shares(weights)
    graph = networkx.DiGraph()
    for layer, upper, lower in np.ndindex(shared.shape):
        graph.add_edge(
            (layer + 1, upper), (layer, lower), capacity=float(shared[layer, upper, lower])
        )
    token = tokens - 1
    expected = [
        networkx.maximum_flow_value(
            graph,
            (layers, token),
            (0, sink),
            flow_func=networkx.algorithms.flow.edmonds_karp,
        )
        for sink in range(tokens)
    ]
    np.testing.assert_allclose(flow(weights, token), expected, atol=1e-6)


def test_flow_through_one_layer_is_its_share() -> None:
    weights = random_attention(1, 2, 5)
    np.testing.assert_allclose(flow(weights, 2), shares(weights)[0, 2], atol=1e-6)


def test_flow_is_bounded() -> None:
    weights = np.zeros((1, 1, MAX_TOKENS + 1, MAX_TOKENS + 1), dtype=np.float32)
    with pytest.raises(UserError, match=f"at most {MAX_TOKENS} tokens; the text has 129"):
        flow(weights, 0)
