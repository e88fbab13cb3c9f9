"""Benchmark rows whose arms do almost nothing."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores


def count_up(name: str, trial: Trial) -> list[int]:
    """Record each lap in a file that all arms share."""
    answers = []
    for part in trial.laps(trial.read("parts.json")):
        with (trial.folder / "order").open("a") as stream:
            stream.write(name)
        print("what a library prints is no message")
        answers.append(part + 1)
    return answers


def count_itself(trial: Trial) -> list[int]:
    for part in trial.laps(trial.read("parts.json")):
        trial.count(part)
        trial.count(part)
    return [0]


def fail(trial: Trial) -> None:
    for _ in trial.laps(range(1)):
        raise ValueError("no such kernel")


def prepare(folder: Path, laps: int, size: float) -> Plan:
    parts = [round(10 * size) + lap for lap in range(laps)]
    (folder / "parts.json").write_text(json.dumps(parts))
    return Plan(amounts=[float(part) for part in parts], operations=1e9)


def score(folder: Path, answers: Mapping[str, Any]) -> Scores:
    return {name: {"sum": float(sum(numbers))} for name, numbers in answers.items()}


ROWS = {
    "count": Row(
        title="counting [up]",
        arms={
            "a": Arm(run=partial(count_up, "a"), format="fp32", peer=False),
            "b": Arm(run=partial(count_up, "b"), format="fp32"),
            "broken": Arm(run=fail, format="int8"),
        },
        prepare=prepare,
        score=score,
        unit="steps/s",
    ),
    "alone": Row(
        title="counting without peers",
        arms={"itself": Arm(run=count_itself, peer=False)},
        prepare=prepare,
        score=score,
        unit="steps/s",
    ),
}
