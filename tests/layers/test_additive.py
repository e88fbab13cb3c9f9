import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor
from torch.testing import assert_close

from heedful.layers.additive import AdditiveAttention, KeysAndValues, attend_additively


@pytest.fixture
def attention() -> AdditiveAttention:
    torch.manual_seed(0)
    attention = AdditiveAttention(query_width=5, memory_width=6, width=4).double()
    torch.nn.init.normal_(attention.score)
    return attention


def states(rows: int = 3, length: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, length, 6, generator=generator, dtype=torch.float64)


def test_it_is_the_papers_formula(attention: AdditiveAttention) -> None:
    values, query = states(), torch.randn(3, 5, dtype=torch.float64)
    mixed = attention(attention.query(query), attention.prepare(values, None))
    for row in range(3):
        scores = torch.stack(
            [
                attention.score
                @ torch.tanh(
                    attention.query.weight @ query[row]
                    + attention.query.bias
                    + attention.key.weight @ state
                )
                for state in values[row]
            ]
        )
        shares = scores.exp() / scores.exp().sum()
        assert_close(mixed.weights[row], shares)
        assert_close(mixed.values[row], shares @ values[row])


def test_what_is_masked_changes_nothing(attention: AdditiveAttention) -> None:
    values, query = states(), torch.randn(3, 5, dtype=torch.float64)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[:, 4:] = False
    some = attention(attention.query(query), attention.prepare(values, mask))
    alone = attention(attention.query(query), attention.prepare(values[:, :4], None))
    assert_close(some.values, alone.values)
    assert_close(some.weights[:, :4], alone.weights)
    assert not some.weights[:, 4:].any()


def test_a_query_without_keys_gets_zeros_and_sends_nothing_back() -> None:
    keys, values = (states().requires_grad_() for _ in range(2))
    query = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1] = False
    score = torch.randn(6, dtype=torch.float64)
    mixed = attend_additively(query, KeysAndValues(keys, values, mask), score)
    assert not mixed.values[1].any()
    assert not mixed.weights[1].any()
    mixed.values.square().sum().backward()
    for tensor in (keys, values, query):
        assert tensor.grad is not None
        assert not tensor.grad[1].any()
        assert tensor.grad[[0, 2]].isfinite().all()
        assert tensor.grad[[0, 2]].any()


def test_gradients_are_those_of_differences(attention: AdditiveAttention) -> None:
    mask = torch.tensor([[True, True, False]] * 2)
    query = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)

    def run(query: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        mixed = attention(attention.query(query), attention.prepare(values, mask))
        return mixed.values, mixed.weights

    torch.autograd.gradcheck(run, (query, states(2, 3).requires_grad_()))


def test_rows_can_be_selected_several_times(attention: AdditiveAttention) -> None:
    mask = torch.tensor([[True] * 7, [True] * 3 + [False] * 4, [True] * 7])
    memory = attention.prepare(states(), mask)
    rows = torch.tensor([1, 1, 0])
    selected = memory.select(rows)
    for before, after in zip(memory, selected, strict=True):
        assert before is not None
        assert after is not None
        assert_same_bits(after, before[rows], "moved")
    assert memory._replace(mask=None).select(rows).mask is None
