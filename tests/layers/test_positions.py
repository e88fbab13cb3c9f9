import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from heedful.layers.block import Block, Context
from heedful.layers.positions import (
    POSITIONS,
    BucketedPositions,
    Relations,
    RelativePositions,
    Sinusoids,
)
from heedful.layers.residual import BlockOptions

B, H, K, P = 2, 3, 4, 9


def _by_the_book(query: Tensor, key: Tensor, table: Tensor, start: int, with_key: bool) -> Tensor:
    """The definition, one pair of positions at a time."""
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
    query = torch.randn(B, queries, H, K, dtype=torch.float64).transpose(1, 2).requires_grad_()
    key = torch.randn(B, H, keys, K, dtype=torch.float64).requires_grad_()
    positions = RelativePositions(P, K, with_key=with_key).double()
    bias = positions.bias(query, key, start=start)
    expected = _by_the_book(query, key, positions.weight, start, with_key)
    assert bias.shape == (B, H, queries, keys)
    torch.testing.assert_close(bias, expected)
    inputs = (query, key, positions.weight)
    gradients = torch.autograd.grad(bias.sin().sum(), inputs, allow_unused=True)
    right = torch.autograd.grad(expected.sin().sum(), inputs, allow_unused=True)
    for one, other in zip(gradients, right, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_a_wide_table_serves_narrow_queries() -> None:
    query, key = torch.randn(2, B, H, 3, K).bfloat16()
    positions = RelativePositions(P, K, with_key=True)
    assert positions.bias(query, key, start=0).dtype == torch.bfloat16


def test_positions_by_the_reference_s_names() -> None:
    assert POSITIONS["absolute"](P, K) is None
    for name, with_key in (("relative_key", False), ("relative_key_query", True)):
        positions = POSITIONS[name](P, K)
        assert isinstance(positions, RelativePositions)
        assert positions.with_key is with_key
        assert positions.weight.shape == (2 * P - 1, K)


def test_sinusoids() -> None:
    vectors = Sinusoids(6)(torch.tensor([[0, 3]]))
    assert vectors.dtype == torch.float32
    angles = torch.tensor([3 / 10000 ** (power / 3) for power in range(3)])
    expected = torch.tensor([0.0, 0, 0, 1, 1, 1]), torch.cat([angles.sin(), angles.cos()])
    torch.testing.assert_close(vectors[0], torch.stack(expected))


class Rotary(nn.Module):
    """Rotates pairs of numbers by an angle that grows with the position (Su et al. 2021)."""

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        angles = torch.arange(start, start + vectors.shape[2]).double()[:, None]
        one, other = vectors.chunk(2, -1)
        sin, cos = angles.sin(), angles.cos()
        return torch.cat([one * cos - other * sin, one * sin + other * cos], -1)

    def bias(
        self,
        query: Tensor,
        key: Tensor,
        *,
        start: int,
        query_bias: Tensor | None = None,
        relations: Relations | None = None,
    ) -> None:
        return None

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Do nothing, because no parameter belongs to a head."""


def test_a_block_takes_positions_that_rotate() -> None:
    torch.manual_seed(0)
    options = BlockOptions(
        width=8,
        head_width=4,
        inner_width=8,
        activation="gelu",
        dropout=0.0,
        attention_dropout=0.0,
    )
    block = Block(options, heads=range(2), positions=Rotary()).double()
    plain = Block(options, heads=range(2)).double()
    plain.load_state_dict(block.state_dict())
    hidden = torch.randn(2, 5, 8, dtype=torch.float64)
    past = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    output = block(hidden, Context(mask=past), need_weights=True)
    # Scores depend on distances alone: here those of the first head.
    query, key = (
        linear(hidden).view(2, 5, 2, 4)[:, :, 0]
        for linear in (block.attention.self.query, block.attention.self.key)
    )
    turned = [Rotary().rotate(x[:, None, :, :], start=0)[:, 0] for x in (query, key)]
    scores = (turned[0] @ turned[1].mT / 2).masked_fill(~past[0], -torch.inf)
    torch.testing.assert_close(output.weights[:, 0], scores.softmax(-1))
    later = (
        Rotary().rotate(query[:, None], start=7)[:, 0]
        @ Rotary().rotate(key[:, None], start=7).mT[:, 0]
    )
    torch.testing.assert_close(later, turned[0] @ turned[1].mT)
    assert not torch.allclose(output.hidden, plain(hidden, Context(mask=past)).hidden)
    # What is kept goes on where it ended.
    first = block(hidden[:, :3], Context(mask=past[..., :3, :3], need_cache=True))
    rest = block(hidden[:, 3:], Context(mask=past[..., 3:, :]), past=first.cache)
    torch.testing.assert_close(rest.hidden, output.hidden[:, 3:])


def test_ranges_of_distances_are_told_by_hand() -> None:
    """Eight buckets of one distance, eight that grow, the last unbounded; then other sizes."""
    numbers = BucketedPositions(32, 1)
    starts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    distances = torch.arange(300)
    before = torch.bucketize(distances, torch.tensor(starts), right=True) - 1
    with torch.no_grad():
        numbers.weight[:, 0] = torch.arange(32.0)
        bias = numbers.bias(300, 300)[0, 0]
    torch.testing.assert_close(bias[299], before.flip(0).float())
    torch.testing.assert_close(bias[0, 1:], 16.0 + before[1:])


@pytest.mark.parametrize("start", [0, 3])
def test_a_bias_of_ranges_depends_on_distances_alone(start: int) -> None:
    torch.manual_seed(0)
    numbers = BucketedPositions(8, 2, max_distance=6, spare=3)
    assert numbers.weight.shape == (11, 2)
    bias = numbers.bias(4, 9, start=start)
    assert bias.shape == (1, 2, 4, 9)
    whole = numbers.bias(9, 9)
    torch.testing.assert_close(bias, whole[:, :, start : start + 4])
    for distance in range(-3, 8):
        diagonal = bias[0].diagonal(distance, 1, 2)
        torch.testing.assert_close(diagonal, diagonal[:, :1].expand_as(diagonal))
    bias.sum().backward()
    assert numbers.weight.grad is not None
    assert numbers.weight.grad.sum() == 2 * 4 * 9
    assert not numbers.weight.grad[8:].any()
