"""Charts of a training run's curves, from its ``metrics.jsonl``."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

from heedful.checkpoints.runs import METRICS
from heedful.reports import charts
from heedful.reports.charts import Chart, Point, Series

_MAX_POINTS = 80
"""Maximum number of points of a curve. In a longer training, each point is a mean over steps."""
_MAX_SERIES = 6
"""Maximum number of series that are distinguishable in one chart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The log of a training run, by step."""

    steps: dict[int, dict[str, Any]]
    dev: dict[int, dict[str, float]]
    """Scores on the development set."""

    @property
    def tokens(self) -> int:
        """Total number of training tokens."""
        counts = (row.get("tokens") for row in self.steps.values())
        return sum(int(count) for count in counts if _is_finite(count))


def read_training(run: Path) -> Training:
    """Read the training log of a run.

    If a resumed run logged a step twice, the later entry wins. Incomplete lines of a killed process
    are skipped.
    """
    steps: dict[int, dict[str, Any]] = {}
    dev: dict[int, dict[str, float]] = {}
    path = run / METRICS
    content = path.read_bytes() if path.is_file() else b""
    lines = content.decode("utf-8", errors="replace").splitlines()
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            continue
        if isinstance(row.get("dev"), dict):
            dev[row["step"]] = {
                name: value for name, value in row["dev"].items() if _is_finite(value)
            }
        else:
            steps[row["step"]] = row
    return Training(steps=dict(sorted(steps.items())), dev=dict(sorted(dev.items())))


def curves(training: Training) -> list[Chart]:
    """Return charts of the logged loss, development scores, learning rate and throughput."""
    result = []
    loss = _values(training, "loss")
    if loss:
        result.append(_smooth("Training loss", "loss", loss))
    result += _dev_charts(training.dev)
    for name, title in (("learning_rate", "Learning rate"), ("tokens_per_second", "Tokens/s")):
        if points := _values(training, name):
            result.append(_smooth(title, title.lower(), points))
    return result


def _dev_charts(dev: dict[int, dict[str, float]]) -> list[Chart]:
    """Return one chart of the scores between 0 and 1, and a chart of each other score."""
    columns: dict[str, list[Point]] = {}
    for step, row in dev.items():
        for name, value in row.items():
            if isinstance(value, float):  # integers are counts
                columns.setdefault(name, []).append((float(step), value))
    shares = {
        name: points
        for name, points in columns.items()
        if all(0 <= y <= 1 for _, y in points) and name not in _UNBOUNDED_SCORES
    }
    other_scores = [
        name
        for name in columns
        if name not in shares and name in (*_UNBOUNDED_SCORES, *_SIGNED_SCORES)
    ]
    result = []
    if shares:
        series = [
            Series(name=name, points=points, marked=True)
            for name, points in list(shares.items())[:_MAX_SERIES]
        ]
        title = "Scores on the development data"
        result.append(charts.lines(title, series, x_label="step", y_range=(0, 1)))
    for name in other_scores:
        series = [Series(name=name, points=columns[name], marked=True)]
        result.append(charts.lines(f"{name} on the development data", series, x_label="step"))
    return result


_UNBOUNDED_SCORES = ("bleu", "bleu_lowercase", "chrf", "perplexity", "log_likelihood", "mse")
"""Scores with a chart of their own even if they happen to be from 0 to 1."""
_SIGNED_SCORES = ("pearson", "spearman", "matthews")
"""Scores with a chart of their own if they are below 0."""


def _values(training: Training, name: str) -> list[Point]:
    return [
        (float(step), float(row[name]))
        for step, row in training.steps.items()
        if _is_finite(row.get(name))
    ]


def _smooth(title: str, name: str, points: Sequence[Point]) -> Chart:
    """Return a chart of a series. A long series is averaged in bins, with a band of its range."""
    size = -(-len(points) // _MAX_POINTS)
    count = -(-len(points) // size)
    edges = [round(step * len(points) / count) for step in range(count + 1)]
    bins = [points[start:end] for start, end in pairwise(edges)]
    means, band = [], []
    for members in bins:
        step, values = members[-1][0], [y for _, y in members]
        means.append((step, sum(values) / len(values)))
        band.append((step, min(values), max(values)))
    label = name if len(bins) == len(points) else f"{name}, mean of about {size} steps"
    series = Series(name=label, points=means, band=band if len(bins) < len(points) else ())
    highest = max(high for _, _, high in band)
    lowest = min(low for _, low, _ in band)
    margin = (highest - min(lowest, 0)) * 0.06 or 1e-9
    y_range = (min(lowest, 0), highest + margin)
    return charts.lines(title, [series], x_label="step", y_range=y_range)


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)
