"""Measure the time of a training step."""

import json
from pathlib import Path
from statistics import mean

PROBE_STEPS = 60
"""Steps of a short run that measures the time of a step."""
_SKIPPED_STEPS = 20
"""Steps at the start of a run that are not measured, because they are slower."""


def seconds_per_step(run: Path) -> float:
    """Return the mean seconds per step, without the first steps."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    taken = [row["tokens"] / row["tokens_per_second"] for row in rows if row.get("tokens")]
    return mean(taken[_SKIPPED_STEPS:] or taken)
