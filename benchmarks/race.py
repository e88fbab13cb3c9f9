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


def race(
    module: str, names: list[str], pythons: Mapping[str, str] | None = None
) -> dict[str, list[Lap]]:
    """Run ``python -m MODULE NAME`` for each name and let them take laps in turn until all end.

    Args:
        module: calls `run_laps`.
        names: the arms.
        pythons: the interpreters of those that need an environment of their own.
    """
    runners = {
        name: subprocess.Popen(
            [(pythons or {}).get(name, sys.executable), "-m", module, name],
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
    for lap in arms[sys.argv[1]]():  # the first is none, but says that all is ready
        hand_in(lap)


def hand_in(lap: Lap) -> None:
    """Report a lap, and wait until the next may begin."""
    print(json.dumps({**lap, "peak": peak_memory()}), flush=True)
    if not sys.stdin.readline():
        sys.exit("the race was called off")


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
