"""A clock in heedful's training, which is otherwise what the user calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest import mock

from benchmarks.trial import Trial


@contextmanager
def steps_as_laps(trial: Trial, steps: int) -> Iterator[int]:
    """Make laps of each so many optimizer steps of the run that is trained meanwhile.

    Args:
        trial: takes the laps.
        steps: of a lap.

    Yields:
        How many steps the run must have: one more than those of the laps, since what ends a run
        would fall into its last lap.
    """
    from heedful.training import fit, loop

    def clocked(*arguments: Any, **options: Any) -> "Iterator[loop.LaunchedStep]":
        run = loop.train(*arguments, **options)
        for _ in trial.laps(range(trial.number_of_laps)):
            for taken in islice(run, steps):
                trial.count(taken.tokens)
                yield taken
        yield from run

    with mock.patch.object(fit, "train", clocked):
        yield trial.number_of_laps * steps + 1
