"""The parts of a benchmark: a row of the table, its arms, and its plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.arm_process import Trial

Format = Literal["fp32", "bf16", "int8", ""]
"""Number format of an arm's matrix products; empty if it has none."""
Scores = dict[str, dict[str, float]]
"""Quality scores of each arm, by the arm's name and the score's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way to do the work of a row: a library in one precision."""

    run: Callable[[Trial], Any]
    """Set up, run the laps, and return the outputs for the row's `score`."""
    format: Format = ""
    peer: bool = True
    """Whether it runs in the peers' environment; otherwise it is an arm of heedful."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The amount of work in the laps of a row."""

    amounts: list[float] | None = None
    """Amount of work in each lap, in the row's unit; None if the arms count it themselves."""
    operations: float | None = None
    """Floating-point operations per unit, to compute the share of the machine's peak."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A benchmark: a task, its data and its arms."""

    title: str
    arms: Mapping[str, Arm]
    prepare: Callable[[Path, int, float], Plan]
    """Write the data to a folder, given the number of laps and the share of the usual size."""
    score: Callable[[Path, Mapping[str, Any]], Scores]
    """Score the outputs of the arms, by the arms' names."""
    unit: str
    measure: Literal["rate", "seconds", "memory"] = "rate"
    """What is compared: work per second, the seconds of a lap, or the increase of the peak memory
    during the laps."""
