"""What a row of the table is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.trial import Trial

Format = Literal["fp32", "bf16", "int8", ""]
"""The format of an arm's matrix products; none where there are none."""
Scores = dict[str, dict[str, float]]
"""By the name of an arm: its figures of quality."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way to do the work of a row."""

    run: Callable[[Trial], Any]
    """Sets up, takes the laps, and returns the answers, which the row's `score` is given."""
    format: Format = ""
    peer: bool = True
    """Runs in the peers' environment; else it is heedful's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a row's laps are."""

    amounts: list[float] | None = None
    """How much is done in each lap, in the row's unit; None where arms count it themselves."""
    operations: float | None = None
    """Floating-point operations for one of the unit, for the share of the machine's ceiling."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Something that is measured, with all who do it."""

    title: str
    arms: Mapping[str, Arm]
    prepare: Callable[[Path, int, float], Plan]
    """Writes the work into a folder, given the number of laps and the share of the usual size."""
    score: Callable[[Path, Mapping[str, Any]], Scores]
    """Judges the answers of the arms, by their names."""
    unit: str
    measure: Literal["rate", "seconds", "memory"] = "rate"
    """What counts: amounts a second, the seconds of a lap, or what the laps added to the peak of
    memory."""
