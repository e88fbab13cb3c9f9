"""Peers in processes of their own, a lap each in turn.

A drift of the machine's speed falls on all of them alike, and no one's settings reach another.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Lap = dict[str, Any]


def race(module: str, names: list[str]) -> dict[str, list[Lap]]:
    """Run ``python -m MODULE NAME`` for each name and let them take laps in turn until all end."""
    runners = {
        name: subprocess.Popen(
            [sys.executable, "-m", module, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    laps: dict[str, list[Lap]] = {name: [] for name in names}
    for name, runner in runners.items():  # each gets ready alone
        _line(name, runner)
    running = dict(runners)
    while running:
        for name, runner in list(running.items()):
            assert runner.stdin is not None
            runner.stdin.write("go\n")
            runner.stdin.flush()
            lap = _line(name, runner)
            if lap is None:
                del running[name]
            else:
                laps[name].append(lap)
    return laps


def _line(name: str, runner: "subprocess.Popen[str]") -> Lap | None:
    assert runner.stdout is not None
    for line in runner.stdout:
        if line.startswith("{"):
            return json.loads(line)  # type: ignore[no-any-return]
    if runner.wait():
        raise RuntimeError(f"{name} failed with exit code {runner.returncode}")
    return None


def run_laps(arms: Mapping[str, Callable[[], Iterator[Lap]]]) -> None:
    """Be a runner: set up, then take a lap for each line on standard input."""
    laps = arms[sys.argv[1]]()
    print(json.dumps(next(laps)), flush=True)  # ready
    for _ in sys.stdin:
        lap = next(laps, None)
        if lap is None:
            return
        print(json.dumps({**lap, "peak": peak_memory()}), flush=True)


def peak_memory() -> int:
    """Return the most memory this program ever held, in MiB (on Linux).

    The usual ``getrusage`` also counts what its parent held when it was started.
    """
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) // 1024


def total(laps: list[Lap], key: str) -> float:
    """Add up a figure over laps."""
    return float(sum(lap.get(key, 0) for lap in laps))
