"""Arms in processes of their own, a lap each in turn.

A drift of the machine's speed falls on all of them alike, and no one's settings reach another.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.row import Plan, Row
from benchmarks.trial import Message

ROOT = Path(__file__).parents[1]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(kw_only=True, slots=True)
class Runner:
    """An arm that runs."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path
    answers: Path
    """Where it writes its answers; the suffix says how."""
    start_peak: int = 0
    """MiB that it held before the first lap."""
    peak: int = 0
    laps: list[Message] = field(default_factory=list)
    failed: str | None = None

    def hear(self) -> Message | None:
        """Return its next message; None where it has failed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        self.failed = (errors or lines or [f"ended with exit code {code}"])[-1]
        return None

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def read_answers(self) -> Any:
        """Return its answers."""
        if self.answers.with_suffix(".npy").exists():
            import numpy as np

            return np.load(self.answers.with_suffix(".npy"))
        return json.loads(self.answers.with_suffix(".json").read_text(encoding="utf-8"))


def race(
    module: str,
    name: str,
    names: list[str],
    folder: Path,
    *,
    laps: int,
    threads: int,
    peers: str,
) -> list[Runner]:
    """Let arms take laps in turn until all have done.

    Args:
        module: has the rows, as ``ROWS``.
        name: of the row.
        names: the arms that take part.
        folder: what the row has prepared.
        laps: how many laps each takes.
        threads: how many threads each computes with.
        peers: the interpreter of the peers' environment.

    Returns:
        All of them, also those that have failed.
    """
    row: Row = import_module(module).ROWS[name]
    runners = []
    for arm in names:
        python = peers if row.arms[arm].peer else sys.executable
        at = list(row.arms).index(arm)
        log = folder / f"log-{at}"
        words = [module, name, arm, str(folder), str(laps), str(threads)]
        with log.open("w") as stream:
            process = subprocess.Popen(
                [python, "-m", "benchmarks.trial", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment(threads, peer=row.arms[arm].peer),
                text=True,
            )
        answers = folder / f"answers-{at}"
        runners.append(Runner(name=arm, process=process, log=log, answers=answers))
    for runner in runners:  # all set up at once, and wait
        if ready := runner.hear():
            runner.start_peak = ready["peak"]
    running = [runner for runner in runners if runner.failed is None]
    while running:
        for runner in list(running):
            runner.tell()
            message = runner.hear()
            if message is not None:
                runner.peak = max(runner.peak, message["peak"])
            if message is not None and "seconds" in message:
                runner.laps.append(message)
                continue
            running.remove(runner)
            if message is not None:
                runner.tell()
                runner.process.wait()
    return runners


def environment(threads: int, *, peer: bool) -> dict[str, str]:
    """Return the environment of an arm: the same number of threads for all, and no network."""
    paths = [str(ROOT)] if peer else [str(ROOT / "src"), str(ROOT)]
    return {
        **os.environ,
        **{variable: str(threads) for variable in _THREAD_VARIABLES},
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
    }


def figure(row: Row, plan: Plan, runner: Runner) -> float:
    """Return what counts of an arm, by the median over its laps."""
    if row.measure == "memory":
        return float(runner.peak - runner.start_peak)
    seconds = [lap["seconds"] for lap in runner.laps]
    if row.measure == "seconds":
        return median(seconds)
    amounts = [
        lap["amount"] if plan.amounts is None else plan.amounts[number]
        for number, lap in enumerate(runner.laps)
    ]
    return median(amount / second for amount, second in zip(amounts, seconds, strict=True))
