"""Run each arm in its own process; the arms take turns, one lap at a time.

So a change in the machine's speed affects all arms alike, and no arm's settings affect another's.
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

from benchmarks.arm_process import Message
from benchmarks.row import Plan, Row

ROOT = Path(__file__).parents[1]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(kw_only=True, slots=True)
class Runner:
    """The process of an arm, as the runner sees it."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path
    outputs: Path
    """Path of its outputs, without the suffix: .npy for arrays, .json for all else."""
    start_peak: int = 0
    """Peak memory before the first lap, in MiB."""
    peak: int = 0
    """Peak memory of the whole run, in MiB."""
    laps: list[Message] = field(default_factory=list)
    failed: str | None = None
    """The error message, if it failed."""

    def receive(self) -> Message | None:
        """Return the next message of the process, or None if it failed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        self.failed = (errors or lines or [f"ended with exit code {code}"])[-1]
        return None

    def resume(self) -> None:
        """Let the process continue."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def read_outputs(self) -> Any:
        """Return the outputs of the arm."""
        if self.outputs.with_suffix(".npy").exists():
            import numpy as np

            return np.load(self.outputs.with_suffix(".npy"))
        return json.loads(self.outputs.with_suffix(".json").read_text(encoding="utf-8"))


def run_arms(
    module: str,
    name: str,
    names: list[str],
    folder: Path,
    *,
    laps: int,
    threads: int,
    peers: str,
) -> list[Runner]:
    """Run the arms of a row in turn, one lap at a time, until all are done.

    Args:
        module: Module that defines ``ROWS``.
        name: Name of the row.
        names: Names of the arms to run.
        folder: Folder with the data that the row prepared.
        laps: Number of laps for each arm.
        threads: Number of threads for each arm.
        peers: Python interpreter of the peers' environment.

    Returns:
        One runner for each arm, including the arms that failed.
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
                [python, "-m", "benchmarks.arm_process", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment(threads, peer=row.arms[arm].peer),
                text=True,
            )
        outputs = folder / f"outputs-{at}"
        runners.append(Runner(name=arm, process=process, log=log, outputs=outputs))
    for runner in runners:  # All arms set up at the same time, then wait.
        if ready := runner.receive():
            runner.start_peak = ready["peak"]
    running = [runner for runner in runners if runner.failed is None]
    while running:
        for runner in list(running):
            runner.resume()
            message = runner.receive()
            if message is not None:
                runner.peak = max(runner.peak, message["peak"])
            if message is not None and "seconds" in message:
                runner.laps.append(message)
                continue
            running.remove(runner)
            if message is not None:
                runner.resume()
                runner.process.wait()
    return runners


def environment(threads: int, *, peer: bool) -> dict[str, str]:
    """Return the environment variables of an arm: a fixed number of threads, and no network."""
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


def result_of(row: Row, plan: Plan, runner: Runner) -> float:
    """Return the result of an arm: its memory, or the median time or rate over its laps."""
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
