import math

import pytest
import torch
from torch import Tensor

from heedful.layers.positions import relative_bias

B, H, K, P = 2, 3, 4, 9


def _by_the_book(query: Tensor, key: Tensor, table: Tensor, start: int, with_key: bool) -> Tensor:
    """The definition, one pair of places at a time."""
    bias = torch.zeros(B, H, query.shape[2], key.shape[2], dtype=query.dtype)
    for i in range(query.shape[2]):
        for j in range(key.shape[2]):
            vector = table[start + i - j + P - 1]
            bias[:, :, i, j] = query[:, :, i] @ vector
            if with_key:
                bias[:, :, i, j] += key[:, :, j] @ vector
    return bias / math.sqrt(K)


@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "start"),
    [(1, 1, 0), (5, 5, 0), (P, P, 0), (1, 6, 5), (3, 7, 4), (1, 6, 0), (4, P, P - 4)],
)
def test_values_and_gradients_are_those_of_the_definition(
    queries: int, keys: int, start: int, with_key: bool
) -> None:
    torch.manual_seed(0)
    query = torch.randn(B, queries, H, K, dtype=torch.float64).transpose(1, 2)
    key = torch.randn(B, H, keys, K, dtype=torch.float64)
    table = torch.randn(2 * P - 1, K, dtype=torch.float64)
    inputs = tuple(x.requires_grad_() for x in (query, key, table))
    found = relative_bias(query, key, table, start=start, with_key=with_key)
    expected = _by_the_book(query, key, table, start, with_key)
    assert found.shape == (B, H, queries, keys)
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found.sin().sum(), inputs, allow_unused=True)
    right = torch.autograd.grad(expected.sin().sum(), inputs, allow_unused=True)
    for one, other in zip(gradients, right, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_a_wide_table_serves_narrow_queries() -> None:
    query, key = torch.randn(2, B, H, 3, K).bfloat16()
    table = torch.randn(2 * P - 1, K)
    assert relative_bias(query, key, table, start=0, with_key=True).dtype == torch.bfloat16
