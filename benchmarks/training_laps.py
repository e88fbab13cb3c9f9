"""Time the optimizer steps of an ordinary heedful training."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest import mock

from benchmarks.arm_process import Trial


@contextmanager
def steps_as_laps(trial: Trial, steps: int) -> Iterator[int]:
    """Time the training inside this context in laps of equally many optimizer steps.

    Args:
        trial: Trial that times the laps.
        steps: Optimizer steps per lap.

    Yields:
        The number of steps to train for: one more than the laps need, so that the work at the end
        of a run is not part of the last lap.
    """
    from heedful.training import fit, loop

    def timed_train(*arguments: Any, **options: Any) -> "Iterator[loop.LaunchedStep]":
        run = loop.train(*arguments, **options)
        for _ in trial.laps(range(trial.number_of_laps)):
            for taken in islice(run, steps):
                trial.count(taken.tokens)
                yield taken
        yield from run

    with mock.patch.object(fit, "train", timed_train):
        yield trial.number_of_laps * steps + 1
