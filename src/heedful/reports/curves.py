"""How a training went, from its ``metrics.jsonl``, as charts."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import METRICS
from heedful.reports import charts
from heedful.reports.charts import Chart, Point, Series

_BINS = 80
"""Points of a curve; a point of a longer training is the mean of some steps."""
_MOST_SCORES = 6
"""Series that can be told apart in one chart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What was logged, by step."""

    steps: dict[int, dict[str, Any]]
    dev: dict[int, dict[str, float]]
    """Scores of the development data."""

    @property
    def tokens(self) -> int:
        """How many tokens were learnt from."""
        return sum(int(row.get("tokens", 0)) for row in self.steps.values())


def read_training(run: Path) -> Training:
    """Read what a run logged; of a step that was taken twice, since it was resumed, the last time.

    A line that a killed process was writing is left out.
    """
    steps: dict[int, dict[str, Any]] = {}
    dev: dict[int, dict[str, float]] = {}
    path = run / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            continue
        if isinstance(row.get("dev"), dict):
            dev[row["step"]] = {name: value for name, value in row["dev"].items() if _finite(value)}
        else:
            steps[row["step"]] = row
    return Training(steps=dict(sorted(steps.items())), dev=dict(sorted(dev.items())))


def curves(training: Training) -> list[Chart]:
    """Draw what there is: the loss, the scores of the development data, the rate and the speed."""
    result = []
    loss = _values(training, "loss")
    if loss:
        result.append(_smooth("Loss of the training data", "loss", loss))
    result += _dev_charts(training.dev)
    for name, title in (("learning_rate", "Learning rate"), ("tokens_per_second", "Tokens/s")):
        if points := _values(training, name):
            result.append(_smooth(title, title.lower(), points))
    return result


def _dev_charts(dev: dict[int, dict[str, float]]) -> list[Chart]:
    """Draw the scores between 0 and 1 in one chart, and each of the others in its own."""
    names = list(dict.fromkeys(name for row in dev.values() for name in row))
    names = [name for name in names if name not in ("items", "tokens_total", "tokens_used")]
    columns = {
        name: [(float(step), row[name]) for step, row in dev.items() if name in row]
        for name in names
    }
    shares = {
        name: points
        for name, points in columns.items()
        if all(0 <= y <= 1 for _, y in points) and name not in ("mse", "log_likelihood")
    }
    others = [name for name in columns if name not in shares and name in _WORTH_A_CHART]
    result = []
    if shares:
        series = [
            Series(name=name, points=points, marked=True)
            for name, points in list(shares.items())[:_MOST_SCORES]
        ]
        title = "Scores of the development data"
        result.append(charts.lines(title, series, x_label="step", y_range=(0, 1)))
    for name in others:
        series = [Series(name=name, points=columns[name], marked=True)]
        result.append(charts.lines(f"{name} of the development data", series, x_label="step"))
    return result


_WORTH_A_CHART = (
    *("bleu", "chrf", "perplexity", "log_likelihood", "mse", "pearson", "spearman", "matthews"),
)


def _values(training: Training, name: str) -> list[Point]:
    return [
        (float(step), float(row[name]))
        for step, row in training.steps.items()
        if _finite(row.get(name))
    ]


def _smooth(title: str, name: str, points: Sequence[Point]) -> Chart:
    """Draw a long series as means of equally many steps, within the range of what they average."""
    size = -(-len(points) // _BINS)
    count = -(-len(points) // size)
    edges = [round(at * len(points) / count) for at in range(count + 1)]
    bins = [points[start:end] for start, end in pairwise(edges)]
    means, band = [], []
    for part in bins:
        at, values = part[-1][0], [y for _, y in part]
        means.append((at, sum(values) / len(values)))
        band.append((at, min(values), max(values)))
    label = name if len(bins) == len(points) else f"{name}, mean of about {size} steps"
    series = Series(name=label, points=means, band=band if len(bins) < len(points) else ())
    highest = max(high for _, _, high in band)
    lowest = min(low for _, low, _ in band)
    room = (highest - min(lowest, 0)) * 0.06 or 1e-9
    y_range = (min(lowest, 0), highest + room)
    return charts.lines(title, [series], x_label="step", y_range=y_range)


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
