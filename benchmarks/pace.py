"""How long a step of a run takes."""

import json
from pathlib import Path
from statistics import mean

PROBE = 60
"""Steps that tell the pace."""
_SKIPPED = 20
"""Steps at the beginning, which are slower."""


def pace(run: Path) -> float:
    """Return the seconds of a step once the run is under way."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    taken = [row["tokens"] / row["tokens_per_second"] for row in rows if row.get("tokens")]
    return mean(taken[_SKIPPED:] or taken)
