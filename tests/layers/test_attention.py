import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.layers import attention
from heedful.layers.attention import attend
from heedful.layers.dropout import draw_keep

B, H, S, T, K = 2, 3, 4, 5, 6


def _inputs(dtype: torch.dtype = torch.float64, grad: bool = True) -> tuple[Tensor, ...]:
    """Make query, key, value and bias; the first three are views, as in a model."""
    torch.manual_seed(1)
    query = torch.randn(B, S, H, K, dtype=dtype).transpose(1, 2)
    key, value = torch.randn(2, B, T, H, K, dtype=dtype).transpose(2, 3)
    bias = torch.randn(1, H, S, T, dtype=dtype)
    return tuple(x.requires_grad_(grad) for x in (query, key, value, bias))


def _mask(kind: str) -> Tensor | None:
    rows = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]).bool()[:, None, None, :]
    if kind == "none":
        return None
    if kind == "row a sequence":
        return rows
    return rows & torch.ones(S, T).tril(1).bool()


KINDS = ["none", "row a sequence", "row a query"]


def _expected(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attention by definition, one query at a time."""
    weights = torch.zeros(B, H, S, T, dtype=query.dtype)
    rows = torch.ones(B, H, S, T).bool() if mask is None else mask.expand(B, H, S, T)
    for b, h, s in torch.cartesian_prod(*(torch.arange(n) for n in (B, H, S))):
        allowed = rows[b, h, s].nonzero().flatten()
        scores = key[b, h, allowed] @ query[b, h, s] / math.sqrt(K)
        if bias is not None:
            scores = scores + bias[0, h, s, allowed]
        weights = weights.index_put((b, h, s, allowed), scores.softmax(0))
    return weights @ value, weights


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_the_definition(
    kind: str, with_bias: bool, need_weights: bool
) -> None:
    query, key, value, bias = _inputs()
    given, mask = bias if with_bias else None, _mask(kind)
    expected, expected_weights = _expected(query, key, value, given, mask)
    mixed, weights, _ = attend(query, key, value, mask=mask, bias=given, need_weights=need_weights)
    torch.testing.assert_close(mixed, expected)
    objective, expected_objective = mixed.sin().sum(), expected.sin().sum()
    if need_weights:
        assert weights is not None
        torch.testing.assert_close(weights, expected_weights)
        objective = objective + weights.cos().sum()
        expected_objective = expected_objective + expected_weights.cos().sum()
    else:
        assert weights is None
    inputs = (query, key, value, *([bias] if with_bias else []))
    gradients = torch.autograd.grad(objective, inputs)
    for found, right in zip(
        gradients, torch.autograd.grad(expected_objective, inputs), strict=True
    ):
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_fused_way_equals_the_plain_one(kind: str, with_bias: bool) -> None:
    query, key, value, bias = _inputs(grad=False)
    given, mask = bias if with_bias else None, _mask(kind)
    fused, nothing, kernel = attend(query, key, value, mask=mask, bias=given)
    plain, weights, other = attend(query, key, value, mask=mask, bias=given, need_weights=True)
    assert nothing is None
    assert weights is not None
    assert (kernel, other) == ("fused", "plain")
    torch.testing.assert_close(fused, plain)


def test_each_way_is_taken_where_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    fused = F.scaled_dot_product_attention

    def counted(*given: Any) -> Tensor:
        calls.append(1)
        return fused(*given)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    trained = _inputs()[:3]
    query, key, value, bias = _inputs(grad=False)
    attend(query, key, value)
    with torch.no_grad():
        attend(trained[0], trained[1], trained[2])
    assert len(calls) == 2
    attend(trained[0], trained[1], trained[2])
    assert len(calls) == 3
    attend(query, key, value, need_weights=True)
    attend(query, key, value, dropout=0.1)
    attend(*(x.detach().bfloat16().requires_grad_() for x in trained))
    attend(query, key, value, bias=bias.requires_grad_())
    assert len(calls) == 3


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Treat any sequence as long, two heads at a time, and count the parts."""
    parts: list[int] = []
    weigh = attention.attention_weights

    def counted(query: Tensor, *others: Any) -> tuple[Tensor, Tensor | None, float]:
        parts.append(len(query))
        return weigh(query, *others)

    monkeypatch.setattr(attention, "_LONG", 1)
    monkeypatch.setattr(attention, "_CHUNK_WEIGHTS", 2 * S * T)
    monkeypatch.setattr(attention, "attention_weights", counted)
    return parts


@pytest.mark.parametrize("shape", [(1, 1, 1, T), (B, 1, 1, T), (1, H, S, T), (B, H, S, T)])
@pytest.mark.parametrize("kind", KINDS)
def test_long_sequences_give_the_same_in_parts(
    kind: str, shape: tuple[int, ...], long: list[int]
) -> None:
    query, key, value, bias = _inputs()
    bias = bias.detach().sum_to_size(1, *shape[1:]).expand(shape).clone().requires_grad_()
    inputs, mask = (query, key, value, bias), _mask(kind)
    found = attend(query, key, value, mask=mask, bias=bias)[0]
    gradients = torch.autograd.grad(found.sin().sum(), inputs)
    assert long == [2, 1] * B * 2  # heads, of each item, forward and backward
    right = attend(query, key, value, mask=mask, bias=bias, need_weights=True)[0]
    torch.testing.assert_close(found, right)
    expected = torch.autograd.grad(right.sin().sum(), inputs)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_long_sequences_draw_the_same_backward(long: list[int]) -> None:
    mask = _mask("row a query")

    def drawn(*inputs: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend(*inputs, mask=mask, dropout=0.4)[0]

    query, key, value, _ = _inputs()
    assert torch.autograd.gradcheck(drawn, (query, key, value), fast_mode=True)
    assert set(long) == {1, 2}
    mixed = drawn(query, key, value)
    drawn_next = torch.rand(1)
    mixed.sum().backward()
    assert not torch.allclose(drawn(query, key, value), attend(query, key, value, mask=mask)[0])
    # The backward pass took no numbers from others.
    assert_same_bits(torch.rand(1), drawn_next, "moved")


@pytest.mark.parametrize("kind", ["few queries", "half", "weights"])
def test_weights_are_kept_where_that_is_better(
    kind: str, long: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [x.detach() for x in _inputs()[:3]]
    if kind == "half":
        inputs = [x.bfloat16() for x in inputs]
    if kind == "few queries":
        monkeypatch.setattr(attention, "_LONG", S * T + 1)
    query, key, value = (x.requires_grad_() for x in inputs)
    attend(query, key, value, dropout=0.1, need_weights=kind == "weights")
    assert long == [B * H]


@pytest.mark.parametrize("way", ["fused", "plain", "plain with dropout"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_query_with_no_keys_gets_zeros_and_gives_no_gradient(
    way: str, dtype: torch.dtype
) -> None:
    query, key, value, _ = _inputs(dtype, grad=way != "fused")
    mask = torch.ones(B, 1, S, T).bool()
    mask[1] = False
    mask[0, 0, 2] = False
    dropout = 0.3 if way == "plain with dropout" else 0.0
    mixed, _, _ = attend(query, key, value, mask=mask, dropout=dropout)
    assert mixed[1].eq(0).all()
    assert mixed[0, :, 2].eq(0).all()
    assert mixed[0, :, 0].ne(0).any()
    if way != "fused":
        gradients = torch.autograd.grad(mixed.sum(), (query, key, value))
        for gradient in gradients:
            assert gradient.isfinite().all()
            assert gradient[1].eq(0).all()
            assert gradient[0].ne(0).any()
        assert gradients[0][0, :, 2].eq(0).all()
    weights = attend(query, key, value, mask=mask, need_weights=True)[1]
    assert weights is not None
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).to(dtype).expand(B, H, S))


def test_dropout_drops_weights_and_its_gradient_follows() -> None:
    query, key, value, bias = _inputs()
    mask = _mask("row a query")
    torch.manual_seed(5)
    mixed, weights, _ = attend(
        query, key, value, mask=mask, bias=bias, dropout=0.4, need_weights=True
    )
    assert weights is not None
    found = torch.autograd.grad(mixed.sin().sum() + weights.cos().sum(), (query, key, value, bias))

    _, whole = _expected(query, key, value, bias, mask)
    torch.manual_seed(5)
    keep, scale = draw_keep(whole.flatten(0, 1), 0.4)
    kept = keep.view(B, H, S, T) != 0
    assert 0.3 < kept.double().mean() < 0.9
    expected = (whole * kept * scale) @ value
    torch.testing.assert_close(mixed, expected)
    torch.testing.assert_close(weights, whole)
    right = torch.autograd.grad(expected.sin().sum() + whole.cos().sum(), (query, key, value, bias))
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(1, 1, 1, T), (B, 1, 1, T), (1, H, S, T), (B, H, S, T)])
def test_a_bias_of_any_broadcast_shape_gets_its_gradient(shape: tuple[int, ...]) -> None:
    query, key, value, _ = _inputs(grad=False)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    whole = bias.detach().expand(B, H, S, T).clone().requires_grad_()
    (found,) = torch.autograd.grad(attend(query, key, value, bias=bias)[0].sin().sum(), bias)
    (right,) = torch.autograd.grad(attend(query, key, value, bias=whole)[0].sin().sum(), whole)
    torch.testing.assert_close(found, right.sum_to_size(shape))


def test_half_precision_is_near() -> None:
    mask = _mask("row a query")
    results = []
    for dtype in (torch.bfloat16, torch.float64):
        query, key, value, _ = (x.detach().bfloat16().to(dtype) for x in _inputs())
        inputs = tuple(x.requires_grad_() for x in (query, key, value))
        mixed, _, _ = attend(*inputs, mask=mask)
        results.append((mixed, *torch.autograd.grad(mixed.sum(), inputs)))
    for half, exact in zip(*results, strict=True):
        assert half.dtype == torch.bfloat16
        assert (half.double() - exact).norm() < 0.02 * exact.norm()


def test_autocast_leaves_the_types_of_the_inputs() -> None:
    query, key, value, _ = _inputs(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, weights, _ = attend(query, key, value, need_weights=True)
    assert weights is not None
    assert mixed.dtype == weights.dtype == torch.bfloat16
