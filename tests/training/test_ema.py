import pytest
import torch
from tests.exact import assert_same_bits
from torch import nn

from heedful.training.ema import MovingAverage


def test_the_average_follows_the_weights() -> None:
    model = nn.Linear(1, 1, bias=False)
    weight = model.weight
    values = torch.randn(60, dtype=torch.float64).tolist()
    weight.data.fill_(3.0)
    average = MovingAverage(model, 0.8)
    right = 3.0
    for step, value in enumerate(values, 1):
        weight.data.fill_(value)
        average.update(step)
        decay = min(0.8, (1 + step) / (10 + step))
        right = decay * right + (1 - decay) * value
        with average.in_place():
            assert weight.item() == pytest.approx(right, rel=1e-4, abs=1e-6)
        assert weight.item() == pytest.approx(value)


def _divide_by(number: int) -> float:
    return 1 / number


def test_the_weights_come_back_bit_for_bit_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    average = MovingAverage(model, 0.9)
    for parameter in model.parameters():
        parameter.data.normal_()
    average.update(1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ZeroDivisionError), average.in_place():
        _divide_by(sum(torch.allclose(before[x], value) for x, value in model.state_dict().items()))
    assert_same_bits(model.state_dict(), before, "stored")


def test_a_restart_goes_on_from_the_weights() -> None:
    model = nn.Linear(2, 2)
    average = MovingAverage(model, 0.9)
    model.weight.data.fill_(7.0)
    average.restart()
    model.weight.data.fill_(0.0)
    with average.in_place():
        assert (model.weight == 7.0).all()
