import math

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.layers.dropout import Dropout, draw_keep

TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
COUNT = 400_000


def _drop(values: Tensor, probability: float, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    dropped: Tensor = Dropout(probability)(values)
    return dropped


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", TYPES)
def test_drops_with_the_probability_and_scales_to_the_same_sum(
    dtype: torch.dtype, probability: float
) -> None:
    values = _drop(torch.ones(COUNT, dtype=dtype), probability)
    kept = int((values != 0).sum())
    deviation = math.sqrt(COUNT * probability * (1 - probability))
    assert abs(kept - COUNT * (1 - probability)) < 4 * deviation
    scale = torch.tensor(1 / (1 - probability), dtype=dtype)
    near = 2.0**-15 / (1 - probability) + torch.finfo(dtype).eps
    torch.testing.assert_close(values.max(), scale, rtol=near, atol=0)
    assert set(values.tolist()) == {0.0, values.max().item()}


@pytest.mark.parametrize("dtype", TYPES)
def test_neighbours_and_calls_are_independent(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.3)
    first, second = (dropout(torch.ones(COUNT, dtype=dtype)) != 0 for _ in range(2))
    expected, deviation = COUNT * 0.49, math.sqrt(COUNT * 0.49 * 0.51)
    assert abs(int((first & second).sum()) - expected) < 4 * deviation
    for distance in (1, 2, 3, 4, 8):
        both = int((first & first.roll(distance)).sum())
        # Pairs that share a value are correlated; that widens the deviation by less than a half.
        assert abs(both - expected) < 6 * deviation


@pytest.mark.parametrize("dtype", TYPES)
def test_the_scale_fits_the_rounded_probability_exactly(dtype: torch.dtype) -> None:
    bits = 8 * dtype.itemsize
    _, scale = draw_keep(torch.ones(1, dtype=dtype), 1 / 3)
    assert scale == pytest.approx(1 / (1 - round(2**bits / 3) / 2**bits), rel=1e-14)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("probability", [1e-30, 1 - 2**-40])
def test_probabilities_beyond_the_resolution(dtype: torch.dtype, probability: float) -> None:
    values = _drop(torch.ones(1000, dtype=dtype), probability)
    if probability < 0.5:
        assert values.eq(1).all()
    else:
        assert values.eq(0).sum() >= 990
        assert values.isfinite().all() or dtype == torch.float16


@pytest.mark.parametrize("keep_bits", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_gradient_passes_where_the_value_did(dtype: torch.dtype, keep_bits: bool) -> None:
    # Not 0, which half precision does draw: then only what was dropped is 0.
    values = (1 + torch.rand(7, 33, dtype=dtype)).requires_grad_()
    dropped = Dropout(0.4).train()(values, keep_bits=keep_bits)
    assert len(dropped.grad_fn.saved_tensors) == 1
    assert (dropped.grad_fn.saved_tensors[0] is None) != keep_bits
    weights = torch.randn(7, 33, dtype=dtype)
    (gradient,) = torch.autograd.grad(dropped, values, weights)
    _, scale = draw_keep(torch.ones(1, dtype=dtype), 0.4)
    expected = torch.where(dropped != 0, weights * scale, 0)
    assert_same_bits(gradient, expected, "one operation")
    assert_same_bits(dropped, torch.where(dropped != 0, values * scale, 0), "one operation")


def test_the_state_of_torchs_generator_decides() -> None:
    values = torch.randn(501)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    dropout = Dropout(0.1)
    first, second = dropout(values), dropout(values)
    assert not torch.allclose(first, second)
    torch.set_rng_state(state)
    assert_same_bits(dropout(values), first, "same code")
    assert_same_bits(dropout(values), second, "same code")
    assert not torch.allclose(_drop(values, 0.1, seed=4), first)


def test_nothing_happens_outside_training_or_at_zero() -> None:
    values = torch.randn(5)
    state = torch.get_rng_state()
    assert Dropout(0.5).eval()(values) is values
    assert Dropout(0.0)(values) is values
    assert_same_bits(torch.get_rng_state(), state, "whole numbers")


def test_any_layout_and_size() -> None:
    values = torch.randn(6, 5, 4).transpose(0, 2)[1:]
    dropped = _drop(values, 0.5)
    kept = dropped != 0
    assert_same_bits(dropped[kept], values[kept] * 2, "one operation")
    assert 0 < kept.sum() < values.numel()
    assert _drop(torch.empty(0, 3), 0.5).shape == (0, 3)
    assert _drop(torch.ones(()), 0.5).shape == ()


def test_what_is_dropped_is_zero_even_of_infinity() -> None:
    values = _drop(torch.full((100,), math.inf), 0.5)
    assert set(values.tolist()) == {0.0, math.inf}


def test_it_says_its_probability() -> None:
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"


def test_p_is_the_probability() -> None:
    dropout = Dropout(0.1)
    dropout.p = 0.0
    assert dropout.p == 0
    values = torch.ones(9)
    assert dropout(values) is values
