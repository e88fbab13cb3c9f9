"""Learning-rate schedules: pure functions from a step to a factor of the peak learning rate.

Step 0 is the first optimizer step; a warm-up starts with a factor of 0. The seven curves and the
constructors below match the reference library at every step, even beyond the end. So a published
recipe gives the same learning rates.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from heedful.arguments import suggest_arguments
from heedful.errors import UserError, check_known

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR


class Curve(Protocol):
    """A schedule: the factor of the peak learning rate at each step."""

    def __call__(self, step: int, *, warmup_steps: int, total_steps: int) -> float:
        """Return the factor at ``step`` of ``total_steps``, with ``warmup_steps`` of warm-up."""


def constant(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """Always 1: no warm-up, no decay."""
    return 1.0


def constant_with_warmup(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """Rise to 1, then stay there."""
    return step / warmup_steps if step < warmup_steps else 1.0


def linear(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """Rise to 1, then fall linearly to 0: the schedule of BERT (Devlin et al. 2019)."""
    if step < warmup_steps:
        return step / warmup_steps
    return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))


def cosine(step: int, *, warmup_steps: int, total_steps: int, cycles: float = 0.5) -> float:
    """Rise to 1, then follow ``cycles`` waves of a cosine; half a wave ends at 0.

    Beyond the end the wave goes on, so the factor rises again.
    """
    if step < warmup_steps:
        return step / warmup_steps
    return _wave(2.0 * cycles * _progress(step, warmup_steps, total_steps))


def cosine_with_restarts(
    step: int, *, warmup_steps: int, total_steps: int, cycles: int = 1
) -> float:
    """Rise to 1, then fall to 0 along half a cosine ``cycles`` times (Loshchilov, Hutter 2017).

    With one cycle it is :func:`cosine`, except that it stays at 0 beyond the end.
    """
    if step < warmup_steps:
        return step / warmup_steps
    progress = _progress(step, warmup_steps, total_steps)
    return _wave(cycles * progress % 1.0) if progress < 1.0 else 0.0


def polynomial(
    step: int, *, warmup_steps: int, total_steps: int, end: float = 0.0, power: float = 1.0
) -> float:
    """Rise to 1, then fall to ``end`` as a polynomial of degree ``power``; 1 is linear."""
    if step < warmup_steps:
        return step / warmup_steps
    if step >= total_steps:
        return end
    remaining = 1.0 - _progress(step, warmup_steps, total_steps)
    return (1.0 - end) * math.pow(remaining, power) + end


def inverse_sqrt(
    step: int, *, warmup_steps: int, total_steps: int, timescale: int | None = None
) -> float:
    """Rise to 1, then fall with the inverse square root of the step, as for the Transformer.

    Vaswani et al. 2017, equation 3, divided by its peak, which is at the end of the warm-up.

    Args:
        step: see :class:`Curve`.
        warmup_steps: see :class:`Curve`.
        total_steps: ignored: the curve does not depend on the end.
        timescale: steps after the peak in which the rate falls by a factor of the square root of 2.
            The default is the number of warm-up steps, as in the paper, or 10,000 without warm-up.
    """
    if step < warmup_steps:
        return step / warmup_steps
    scale = timescale or warmup_steps or 10_000
    return math.sqrt(scale / (step + scale - warmup_steps))


def _progress(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the progress from the end of the warm-up to the end of the run, from 0 to 1."""
    return (step - warmup_steps) / max(1, total_steps - warmup_steps)


def _wave(half_turns: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * half_turns))


SCHEDULES: dict[str, Curve] = {
    "constant": constant,
    "constant-with-warmup": constant_with_warmup,
    "linear": linear,
    "cosine": cosine,
    "cosine-with-restarts": cosine_with_restarts,
    "polynomial": polynomial,
    "inverse-sqrt": inverse_sqrt,
}


def warmup_steps(warmup: float, total_steps: int) -> int:
    """Return the number of warm-up steps.

    Args:
        warmup: a share of all steps if below 1 (rounded up, as the reference does), else a whole
            number of steps.
        total_steps: number of steps of the run.

    Raises:
        UserError: ``warmup`` is negative, not finite, or neither a share nor a whole number.
    """
    if 0 <= warmup < 1:
        return math.ceil(total_steps * warmup)
    if warmup >= 1 and float(warmup).is_integer():
        return int(warmup)
    raise UserError(f"warm-up {warmup}: give a share from 0 to below 1, or a whole number of steps")


def warmup_warning(name: str, warmup: float, total_steps: int) -> str:
    """Return the end of a message if a run ends before its warm-up does, else ''.

    Args:
        name: one of :data:`SCHEDULES`; ``constant`` has no warm-up.
        warmup: see :func:`warmup_steps`.
        total_steps: number of steps of the run.
    """
    if name == "constant" or warmup_steps(warmup, total_steps) < total_steps:
        return ""
    if total_steps == 1:
        return "; the warm-up takes the only step, at a rate of 0: give --warmup 0"
    return "; the warm-up takes all steps and never reaches that rate: give a smaller --warmup"


def schedule(name: str, *, total_steps: int, warmup: float) -> Callable[[int], float]:
    """Return the schedule of a run: a function from a step to a learning-rate factor.

    Args:
        name: one of :data:`SCHEDULES`.
        total_steps: number of steps of the run.
        warmup: see :func:`warmup_steps`; ``constant`` ignores it.

    Raises:
        UserError: the schedule does not exist, or the warm-up is invalid.
    """
    check_known("schedule", name, SCHEDULES)
    rise = warmup_steps(warmup, total_steps)
    return partial(SCHEDULES[name], warmup_steps=rise, total_steps=total_steps)


@suggest_arguments
def get_constant_schedule(optimizer: "Optimizer", last_epoch: int = -1) -> "LambdaLR":
    """Keep the optimizer's learning rate constant.

    This and the constructors below take the arguments of the reference library under the same
    names. They return a torch scheduler. Call its ``step`` after each optimizer step.

    Args:
        optimizer: the optimizer. The learning rates of its groups are the peak rates.
        last_epoch: the last finished step when resuming from a stored optimizer; -1 at the start.
    """
    return _lambda_lr(optimizer, partial(constant, warmup_steps=0, total_steps=0), last_epoch)


@suggest_arguments
def get_constant_schedule_with_warmup(
    optimizer: "Optimizer", num_warmup_steps: int, last_epoch: int = -1
) -> "LambdaLR":
    """Raise the learning rate from 0 in ``num_warmup_steps`` steps, then keep it."""
    curve = partial(constant_with_warmup, warmup_steps=num_warmup_steps, total_steps=0)
    return _lambda_lr(optimizer, curve, last_epoch)


@suggest_arguments
def get_linear_schedule_with_warmup(
    optimizer: "Optimizer", num_warmup_steps: int, num_training_steps: int, last_epoch: int = -1
) -> "LambdaLR":
    """Raise the learning rate from 0, then lower it linearly to 0."""
    curve = partial(linear, warmup_steps=num_warmup_steps, total_steps=num_training_steps)
    return _lambda_lr(optimizer, curve, last_epoch)


@suggest_arguments
def get_cosine_schedule_with_warmup(
    optimizer: "Optimizer",
    num_warmup_steps: int,
    num_training_steps: int,
    num_cycles: float = 0.5,
    last_epoch: int = -1,
) -> "LambdaLR":
    """Raise the learning rate from 0, then let it follow ``num_cycles`` waves of a cosine."""
    curve = partial(
        cosine,
        warmup_steps=num_warmup_steps,
        total_steps=num_training_steps,
        cycles=num_cycles,
    )
    return _lambda_lr(optimizer, curve, last_epoch)


@suggest_arguments
def get_cosine_with_hard_restarts_schedule_with_warmup(
    optimizer: "Optimizer",
    num_warmup_steps: int,
    num_training_steps: int,
    num_cycles: int = 1,
    last_epoch: int = -1,
) -> "LambdaLR":
    """Raise the learning rate from 0, then lower it to 0 along a cosine ``num_cycles`` times."""
    curve = partial(
        cosine_with_restarts,
        warmup_steps=num_warmup_steps,
        total_steps=num_training_steps,
        cycles=num_cycles,
    )
    return _lambda_lr(optimizer, curve, last_epoch)


@suggest_arguments
def get_polynomial_decay_schedule_with_warmup(
    optimizer: "Optimizer",
    num_warmup_steps: int,
    num_training_steps: int,
    lr_end: float = 1e-7,
    power: float = 1.0,
    last_epoch: int = -1,
) -> "LambdaLR":
    """Raise the learning rate from 0, then lower it to ``lr_end`` as a polynomial.

    Raises:
        UserError: ``lr_end`` is not below the optimizer's learning rate.
    """
    rate = optimizer.defaults["lr"]
    if not lr_end < rate:
        raise UserError(f"lr_end {lr_end} must be below the optimizer's learning rate {rate}")
    curve = partial(
        polynomial,
        warmup_steps=num_warmup_steps,
        total_steps=num_training_steps,
        end=lr_end / rate,
        power=power,
    )
    return _lambda_lr(optimizer, curve, last_epoch)


@suggest_arguments
def get_inverse_sqrt_schedule(
    optimizer: "Optimizer",
    num_warmup_steps: int,
    timescale: int | None = None,
    last_epoch: int = -1,
) -> "LambdaLR":
    """Raise the learning rate from 0, then lower it with the inverse square root of the step."""
    curve = partial(inverse_sqrt, warmup_steps=num_warmup_steps, total_steps=0, timescale=timescale)
    return _lambda_lr(optimizer, curve, last_epoch)


_CONSTRUCTORS: dict[str, tuple[Callable[..., "LambdaLR"], tuple[str, ...]]] = {
    "constant": (get_constant_schedule, ()),
    "constant-with-warmup": (get_constant_schedule_with_warmup, ("num_warmup_steps",)),
    "inverse-sqrt": (get_inverse_sqrt_schedule, ("num_warmup_steps",)),
    "linear": (get_linear_schedule_with_warmup, ("num_warmup_steps", "num_training_steps")),
    "cosine": (get_cosine_schedule_with_warmup, ("num_warmup_steps", "num_training_steps")),
    "cosine-with-restarts": (
        get_cosine_with_hard_restarts_schedule_with_warmup,
        ("num_warmup_steps", "num_training_steps"),
    ),
    "polynomial": (
        get_polynomial_decay_schedule_with_warmup,
        ("num_warmup_steps", "num_training_steps"),
    ),
}
"""The constructor of each schedule, and the arguments that it needs."""


@suggest_arguments
def get_scheduler(
    name: str,
    optimizer: "Optimizer",
    num_warmup_steps: int | None = None,
    num_training_steps: int | None = None,
) -> "LambdaLR":
    """Return the scheduler of a name in :data:`SCHEDULES`, or in the reference, with underscores.

    Args:
        name: name of the schedule.
        optimizer: see :func:`get_constant_schedule`.
        num_warmup_steps: number of steps of the warm-up.
        num_training_steps: number of all steps.

    Raises:
        UserError: there is no such schedule, or it needs a number that is None.
    """
    name = name.replace("_", "-")
    check_known("schedule", name, _CONSTRUCTORS)
    construct, needed = _CONSTRUCTORS[name]
    given = {"num_warmup_steps": num_warmup_steps, "num_training_steps": num_training_steps}
    numbers = {argument: given[argument] for argument in needed}
    for argument, number in numbers.items():
        if number is None:
            raise UserError(f"the schedule {name!r} needs {argument}")
    return construct(optimizer, **numbers)


def _lambda_lr(
    optimizer: "Optimizer", curve: Callable[[int], float], last_epoch: int
) -> "LambdaLR":
    from torch.optim.lr_scheduler import LambdaLR

    return LambdaLR(optimizer, curve, last_epoch)
