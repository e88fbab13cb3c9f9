import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import get_args

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.settings import Schedule
from heedful.training import schedule as ours

RATE = 3e-4
LENGTHS = [(0, 1), (1, 1), (0, 7), (1, 7), (6, 7), (7, 7), (9, 7), (10, 100), (0, 0)]

CONSTRUCTORS: list[tuple[str, dict[str, float]]] = [
    ("get_constant_schedule", {}),
    ("get_constant_schedule_with_warmup", {}),
    ("get_linear_schedule_with_warmup", {}),
    ("get_cosine_schedule_with_warmup", {}),
    ("get_cosine_schedule_with_warmup", {"num_cycles": 0.25}),
    ("get_cosine_schedule_with_warmup", {"num_cycles": 2.0}),
    ("get_cosine_with_hard_restarts_schedule_with_warmup", {}),
    ("get_cosine_with_hard_restarts_schedule_with_warmup", {"num_cycles": 3}),
    ("get_polynomial_decay_schedule_with_warmup", {}),
    ("get_polynomial_decay_schedule_with_warmup", {"lr_end": 1e-5, "power": 2.5}),
    ("get_polynomial_decay_schedule_with_warmup", {"lr_end": 0.0, "power": 0.5}),
    ("get_inverse_sqrt_schedule", {}),
    ("get_inverse_sqrt_schedule", {"timescale": 5}),
]


def _arguments(name: str, warmup: int, total: int) -> dict[str, int]:
    if name == "get_constant_schedule":
        return {}
    if name in ("get_constant_schedule_with_warmup", "get_inverse_sqrt_schedule"):
        return {"num_warmup_steps": warmup}
    return {"num_warmup_steps": warmup, "num_training_steps": total}


def _optimizer() -> torch.optim.Optimizer:
    first, second = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    return torch.optim.SGD([{"params": [first]}, {"params": [second], "lr": RATE / 10}], lr=RATE)


def _rates(scheduler: torch.optim.lr_scheduler.LambdaLR, steps: int) -> Iterator[list[float]]:
    for _ in range(steps):
        yield scheduler.get_last_lr()
        scheduler.optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(
    ("name", "options", "warmup", "total"),
    [
        (name, options, warmup, total)
        for name, options in CONSTRUCTORS
        for warmup, total in LENGTHS
        # There the reference's polynomial divides by zero.
        if "polynomial" not in name or warmup < total
    ],
)
def test_constructors_give_the_reference_rates(
    name: str, options: dict[str, float], warmup: int, total: int
) -> None:
    arguments = _arguments(name, warmup, total) | options
    steps = max(warmup, total) + 5  # beyond the end
    mine = getattr(ours, name)(_optimizer(), **arguments)
    reference = getattr(transformers, name)(_optimizer(), **arguments)
    for mine_now, reference_now in zip(_rates(mine, steps), _rates(reference, steps), strict=True):
        assert mine_now == pytest.approx(reference_now, rel=1e-12, abs=1e-18)


@pytest.mark.parametrize(("name", "options"), CONSTRUCTORS)
def test_constructors_take_positional_arguments_like_the_reference(
    name: str, options: dict[str, float]
) -> None:
    given_values = [*_arguments(name, 2, 10).values(), *options.values()]
    mine = getattr(ours, name)(_optimizer(), *given_values)
    reference = getattr(transformers, name)(_optimizer(), *given_values)
    assert list(_rates(mine, 12)) == [
        pytest.approx(rates, rel=1e-12, abs=1e-18) for rates in _rates(reference, 12)
    ]


def test_polynomial_without_room_to_fall_ends_at_once() -> None:
    scheduler = ours.get_polynomial_decay_schedule_with_warmup(_optimizer(), 2, 2, lr_end=RATE / 4)
    shares = [rates[0] / RATE for rates in _rates(scheduler, 4)]
    assert shares == pytest.approx([0.0, 0.5, 0.25, 0.25])


def test_a_stored_scheduler_goes_on_where_it_stopped() -> None:
    whole = list(_rates(ours.get_linear_schedule_with_warmup(_optimizer(), 3, 10), 10))
    first = ours.get_linear_schedule_with_warmup(_optimizer(), 3, 10)
    begun = list(_rates(first, 4))
    second = ours.get_linear_schedule_with_warmup(_optimizer(), 3, 10)
    second.load_state_dict(first.state_dict())
    assert begun + list(_rates(second, 6)) == whole


def test_polynomial_refuses_an_end_above_the_start() -> None:
    with pytest.raises(UserError, match=r"lr_end 0\.001 must be below .* 0\.0003"):
        ours.get_polynomial_decay_schedule_with_warmup(_optimizer(), 0, 10, lr_end=1e-3)


@pytest.mark.parametrize("name", ours.SCHEDULES)
@given(warmup=st.integers(0, 40), length=st.integers(1, 60), beyond=st.integers(0, 20))
def test_every_schedule_rises_to_one_and_falls_to_its_end(
    name: str, warmup: int, length: int, beyond: int
) -> None:
    total = warmup + length
    factor = ours.schedule(name, total_steps=total, warmup=warmup)
    rising = [factor(step) for step in range(warmup + 1)]
    falling = [factor(step) for step in range(warmup, total + 1)]
    assert falling[0] == 1.0
    assert falling == sorted(falling, reverse=True)
    if name == "constant":
        assert {*rising, *falling, factor(total + beyond)} == {1.0}
        return
    assert rising == [step / warmup for step in range(warmup)] + [1.0]
    if name == "inverse-sqrt":  # which does not know of an end
        assert 0 < factor(total + beyond) <= falling[-1]
        return
    assert falling[-1] == pytest.approx(1.0 if name == "constant-with-warmup" else 0.0, abs=1e-15)
    if name != "cosine":  # whose wave goes on
        assert factor(total + beyond) == falling[-1]


@pytest.mark.parametrize(
    ("name", "curve", "share_left"),
    [
        ("linear", ours.linear, lambda done: 1 - done),
        ("polynomial", partial(ours.polynomial, power=2), lambda done: (1 - done) ** 2),
        (
            "polynomial to a fifth",
            partial(ours.polynomial, end=0.2),
            lambda done: 1 - done * Fraction(4, 5),
        ),
    ],
)
def test_curves_are_the_formulas_in_exact_arithmetic(
    name: str, curve: ours.Curve, share_left: Callable[[Fraction], Fraction]
) -> None:
    for step in range(4, 21):
        expected = share_left(Fraction(step - 4, 16))
        assert curve(step, warmup_steps=4, total_steps=20) == pytest.approx(float(expected))


@pytest.mark.parametrize("warmup", [1, 50, 4000])
def test_the_inverse_root_is_the_papers_equation(warmup: int) -> None:
    def equation(step: int) -> float:
        return 512**-0.5 * min(step**-0.5, step * warmup**-1.5)

    for step in (1, warmup // 2 + 1, warmup, warmup + 1, 2 * warmup, 100_000):
        share = ours.inverse_sqrt(step, warmup_steps=warmup, total_steps=0)
        assert share == pytest.approx(equation(step) / equation(warmup), rel=1e-12)


def test_restarts_come_back_to_one() -> None:
    shares = [
        ours.cosine_with_restarts(step, warmup_steps=0, total_steps=12, cycles=3)
        for step in range(12)
    ]
    assert shares == pytest.approx([1, 0.853553391, 0.5, 0.146446609] * 3)


@pytest.mark.parametrize("total", [1, 3, 7, 10, 30, 100, 12345])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.06, 0.1, 1 / 3, 0.5, 0.999])
def test_a_share_of_warmup_is_that_of_the_reference(share: float, total: int) -> None:
    # Its settings cannot be built without a library for clusters; the method needs no more.
    settings = SimpleNamespace(warmup_steps=0, warmup_ratio=share)
    reference = transformers.TrainingArguments.get_warmup_steps(settings, total)
    assert ours.warmup_steps(share, total) == reference


@pytest.mark.parametrize("warmup", [1, 1.0, 25, 25.0])
def test_warmup_in_steps(warmup: float) -> None:
    found = ours.warmup_steps(warmup, total_steps=10)
    assert found == warmup
    assert isinstance(found, int)


@pytest.mark.parametrize("warmup", [-1, -0.1, 1.5, 10.25, float("nan"), float("inf")])
def test_other_warmups_are_refused(warmup: float) -> None:
    with pytest.raises(UserError, match="give a share from 0 to below 1, or a whole number"):
        ours.schedule("linear", total_steps=10, warmup=warmup)


def test_an_unknown_schedule_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown schedule 'cosin' \(did you mean 'cosine'\?\)"):
        ours.schedule("cosin", total_steps=10, warmup=0)


def test_the_settings_name_the_same_schedules() -> None:
    assert get_args(Schedule) == tuple(ours.SCHEDULES)


def test_importing_schedules_does_not_import_torch() -> None:
    program = "import sys, heedful.training.schedule; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "warmup", "total_steps", "warning"),
    [
        ("linear", 0.1, 1, "takes the only step, at a rate of 0: give --warmup 0"),
        ("linear", 500, 200, "takes all steps and never reaches that rate: give a smaller"),
        ("cosine", 200, 200, "takes all steps"),
        ("linear", 199, 200, ""),
        ("linear", 0, 1, ""),
        ("constant", 500, 200, ""),
    ],
)
def test_a_warmup_that_the_run_does_not_outlast_is_told(
    name: str, warmup: float, total_steps: int, warning: str
) -> None:
    said = ours.warmup_warning(name, warmup, total_steps)
    assert warning in said
    assert bool(warning) == bool(said)


@pytest.mark.parametrize("name", get_args(Schedule))
def test_a_scheduler_by_name_is_the_references(name: str) -> None:
    reference = name.replace("-", "_")
    expected = list(_rates(transformers.get_scheduler(reference, _optimizer(), 2, 9), 9))
    for alias in (name, reference):
        rates = list(_rates(ours.get_scheduler(alias, _optimizer(), 2, 9), 9))
        torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected))


def test_what_a_scheduler_by_name_needs() -> None:
    with pytest.raises(UserError, match=r"unknown schedule 'lineal' .did you mean 'linear'"):
        ours.get_scheduler("lineal", _optimizer(), 2, 9)
    with pytest.raises(UserError, match="the schedule 'linear' needs num_training_steps"):
        ours.get_scheduler("linear", _optimizer(), num_warmup_steps=2)
