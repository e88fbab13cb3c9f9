"""Kills a training run with SIGKILL at many moments, resumes it, and compares the final weights.

Run as a program: each run is a fork of a process that has imported everything and started no
thread. A moment is the n-th call of a Python or C function made by the package's own code, so it
can fall anywhere: between two micro-batches, inside the optimizer, half-way through a checkpoint.
"""

import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import heedful
from heedful.commands.train import train
from heedful.files import sha256
from heedful.settings import (
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    ParallelSettings,
    RunSettings,
    TrainSettings,
    TranslateSettings,
    TranslateTrainSettings,
)
from heedful.task import Recipe
from heedful.tasks import task_named

PACKAGE = str(Path(heedful.__file__).parent)


def classify(model: str, data: Path, out: Path) -> None:
    recipe = Recipe(
        data=DataSettings(train=[data], dev=[data], model=model, long_text="window"),
        options=ClassifySettings(),
        columns=ColumnSettings(),
        training=TrainSettings(
            epochs=3,
            batch_size=6,
            batch_tokens=40,
            learning_rate=1e-2,
            head_learning_rate=1e-2,
            precision="fp32",
            checkpoint_every=4,
            evaluate_every=5,
            keep_checkpoints=2,
            average=2,
            ema=0.5,
        ),
        run=RunSettings(out=out, resume=True),
    )
    train("classify", recipe)


def translate(model: str, data: Path, out: Path) -> None:
    """Learn from a file and the translations beside it; the model starts from scratch."""
    recipe = Recipe(
        data=ParallelSettings(train=[data, data.with_suffix(".en")]),
        options=TranslateSettings(arch="transformer", preset="tiny", vocab_size=400),
        columns=ColumnSettings(),
        training=TranslateTrainSettings(
            epochs=2, batch_size=9, batch_tokens=80, precision="fp32", checkpoint_every=2
        ),
        run=RunSettings(out=out, resume=True),
    )
    train("translate", recipe)


def forked(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process and return its wait status."""
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


PLACES = ("between micro-batches", "in a checkpoint", "elsewhere")


def where(frame: FrameType | None) -> str:
    """Name what a process is doing, at the moments that are hardest to resume from."""
    while frame is not None:
        if frame.f_code.co_name == "_accumulate" and frame.f_locals.get("total"):
            return PLACES[0]
        if frame.f_code.co_filename.endswith("checkpoints/steps.py"):
            return PLACES[1]
        frame = frame.f_back
    return PLACES[2]


def counted(work: Callable[[], None], kill_at: int | None, report: Path) -> None:
    """Run ``work``, counting calls from the package's code.

    Args:
        work: what to run.
        kill_at: the call to die at; None runs to the end.
        report: gets the calls made in each place; of one that dies, the place.
    """
    calls = 0
    made: dict[str, list[int]] = {place: [] for place in PLACES}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(PACKAGE):
            calls += 1
            if kill_at is None:
                made[where(frame)].append(calls)
            elif calls == kill_at:
                report.write_text(where(frame))
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    work()
    sys.setprofile(None)
    report.write_text(json.dumps(made))


def main() -> None:
    model, data, folder, count = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    trained = {"classify": classify, "translate": translate}[sys.argv[5]]
    task_named(sys.argv[5])  # imports its module, slowly, before the forks do
    import_module("sklearn.metrics")  # the same of what scores
    whole = folder / "whole"
    report = folder / "calls"
    assert forked(partial(counted, partial(trained, model, data, whole), None, report)) == 0
    wanted = sha256(whole / "model.safetensors")
    draw = random.Random(0)
    # As many moments in each place, which by the number of calls would be very unequal.
    each = int(count) // len(PLACES)
    calls = json.loads(report.read_text()).values()
    moments = sorted(moment for made in calls for moment in draw.sample(made, each))
    results = []
    for moment in moments:
        out = folder / f"killed-{moment}"
        work = partial(trained, model, data, out)
        status = forked(partial(counted, work, moment, report))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        steps = sorted(path.name for path in out.glob("checkpoints/step-*"))
        place = report.read_text()
        assert forked(work) == 0, moment
        same = sha256(out / "model.safetensors") == wanted
        log = (out / "metrics.jsonl").read_text() if out.exists() else ""
        logged = [row["step"] for row in map(json.loads, log.splitlines()) if "loss" in row]
        results.append(
            {"killed": killed, "where": place, "same": same, "steps": steps, "logged": logged}
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
