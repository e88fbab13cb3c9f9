"""What one process pays for the code that lets several work together.

    python -m benchmarks.seam [--steps 200]

It trains the small classifier of ``tests/golden``, whose steps take some milliseconds, so the share
is larger than for any model in use. Each call of ``training/ranks.py`` is timed, in processor time;
and so is one that does nothing: that is what the clock itself costs, and is taken off.
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

START = Path(__file__).parents[1] / "tests/golden/0.1.0"


def main() -> None:
    """Train, and print what the calls took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    calls: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    ticks: list[float] = []
    inside = False

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*arguments: object, **settings: object) -> object:
            nonlocal inside
            if inside or len(ticks) < 2:  # the first step makes what the others use again
                return function(*arguments, **settings)
            inside, started = True, time.thread_time()
            try:
                return function(*arguments, **settings)
            finally:
                seconds[function.__name__] += time.thread_time() - started
                calls[function.__name__] += 1
                inside = False

        return call

    def nothing() -> None:
        pass

    clock = timed(nothing)

    def ticking(*arguments: Any, **settings: Any) -> Iterator[loop.LaunchedStep]:
        ticks.append(time.thread_time())
        for taken in loop.train(*arguments, **settings):
            ticks.append(time.thread_time())
            clock()
            yield taken

    for name, function in vars(ranks).copy().items():
        if isinstance(function, FunctionType) and function.__module__ == ranks.__name__:
            setattr(ranks, name, timed(function))
    with mock.patch.object(fit, "train", ticking), tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary, "work")
        shutil.copytree(START, work)
        data = ["--train", str(work / "data/classify.csv"), "--model", str(work / "classify")]
        options = ["--batch-size", "8", "--steps", str(steps), "--precision", "fp32"]
        run(["train", "classify", *data, *options, "--out", str(work / "out")])
    steps, whole = len(ticks) - 2, ticks[-1] - ticks[1]
    idle = seconds.pop("nothing") / calls.pop("nothing")
    for name, count in calls.most_common():
        each = 1e6 * (seconds[name] / count - idle)
        print(f"{name:16} {count / steps:6.1f} calls a step  {each:6.1f} us")
    net = sum(seconds.values()) - idle * calls.total()
    print(f"{1e6 * net / steps:.0f} us of {1e3 * whole / steps:.2f} ms a step: {net / whole:.2%}")


if __name__ == "__main__":
    main()
