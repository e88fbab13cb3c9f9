"""Measure what the code for distributed training costs a single process.

    python -m benchmarks.distributed_overhead [--steps 200]

The script trains the small classifier of ``tests/golden``. Its steps take a few milliseconds, so
the share is larger than for a model of normal size. The script measures the CPU time of each call
of ``training/ranks.py``, and subtracts that of an empty call, which is the cost of timing itself.
"""

import argparse
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest import mock

import torch

from heedful.cli import run
from heedful.training import fit, loop, ranks

GOLDEN_RUN = Path(__file__).parents[1] / "tests/golden/0.1.0"


def main() -> None:
    """Train, and print the time of the calls."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    calls: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    step_ends: list[float] = []
    inside = False

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*arguments: object, **settings: object) -> object:
            nonlocal inside
            if inside or len(step_ends) < 2:  # the first step also creates what later steps reuse
                return function(*arguments, **settings)
            inside, started = True, time.thread_time()
            try:
                return function(*arguments, **settings)
            finally:
                seconds[function.__name__] += time.thread_time() - started
                calls[function.__name__] += 1
                inside = False

        return call

    def do_nothing() -> None:
        pass

    empty_call = timed(do_nothing)

    def timed_train(*arguments: Any, **settings: Any) -> Iterator[loop.LaunchedStep]:
        step_ends.append(time.thread_time())
        for taken in loop.train(*arguments, **settings):
            step_ends.append(time.thread_time())
            empty_call()
            yield taken

    for name, function in vars(ranks).copy().items():
        if isinstance(function, FunctionType) and function.__module__ == ranks.__name__:
            setattr(ranks, name, timed(function))
    with mock.patch.object(fit, "train", timed_train), tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary, "work")
        shutil.copytree(GOLDEN_RUN, work)
        data = ["--train", str(work / "data/classify.csv"), "--model", str(work / "classify")]
        options = ["--batch-size", "8", "--steps", str(steps), "--precision", "fp32"]
        run(["train", "classify", *data, *options, "--out", str(work / "out")])
    steps, whole = len(step_ends) - 2, step_ends[-1] - step_ends[1]
    empty_seconds = seconds.pop("do_nothing") / calls.pop("do_nothing")
    for name, count in calls.most_common():
        each = 1e6 * (seconds[name] / count - empty_seconds)
        print(f"{name:16} {count / steps:6.1f} calls per step  {each:6.1f} us")
    net = sum(seconds.values()) - empty_seconds * calls.total()
    print(f"{1e6 * net / steps:.0f} us of {1e3 * whole / steps:.2f} ms per step: {net / whole:.2%}")


if __name__ == "__main__":
    main()
