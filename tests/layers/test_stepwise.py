import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor, nn
from torch.testing import assert_close

from heedful.layers.stepwise import StepwiseLinear, stepwise


def run(linear: nn.Linear, start: Tensor, steps: int, *, at_once: bool) -> Tensor:
    """Feed each output back in, so every step depends on the earlier ones."""
    step = stepwise(linear, steps, len(start)) if at_once else linear
    states = [start]
    for _ in range(steps):
        states.append(torch.tanh(step(states[-1])))
    return torch.stack(states[1:])


@pytest.mark.parametrize("steps", [1, 5])
def test_it_is_the_layer_in_value_and_gradient(steps: int) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(4, 4).double()
    start = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    tensors = (*linear.parameters(), start)
    found, right = (run(linear, start, steps, at_once=at_once) for at_once in (True, False))
    assert_close(found, right)
    weights = torch.randn_like(found)
    assert_close(
        torch.autograd.grad((found * weights).sum(), tensors),
        torch.autograd.grad((right * weights).sum(), tensors),
    )


def test_each_step_has_its_own_offset() -> None:
    torch.manual_seed(0)
    weight = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    offsets = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)

    def at_once(weight: Tensor, offsets: Tensor, inputs: Tensor) -> Tensor:
        step = StepwiseLinear(weight, offsets)
        return torch.stack([step(rows) for rows in inputs])

    assert_close(at_once(weight, offsets, inputs), inputs @ weight.T + offsets)
    torch.autograd.gradcheck(at_once, (weight, offsets, inputs))


def test_narrow_gradients_are_added_up_without_rounding_in_between() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(8, 8).bfloat16()
    step = stepwise(linear, 400, 1)
    rows = torch.ones(1, 8, dtype=torch.bfloat16)
    torch.stack([step(rows) for _ in range(400)]).sum().backward()
    # In bfloat16 adding 1 to 256 is of no effect.
    assert linear.weight.grad is not None
    assert_same_bits(linear.weight.grad, torch.full((8, 8), 400.0).bfloat16(), "whole numbers")
