"""The report of a run, as one HTML document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful import files
from heedful.checkpoints.runs import RunRecord
from heedful.errors import naming_arguments
from heedful.item_results import ItemResult, ScoredItem
from heedful.metrics.by_label import has_confusion, mistakes_of, shown_labels
from heedful.metrics.calibration import Calibration, calibration_error
from heedful.metrics.resampling import Interval, intervals
from heedful.pages.document import asset, document, fill, frame
from heedful.pages.language import ENGLISH, chinese
from heedful.reading.frames import data_name
from heedful.reports import PACKAGE, charts, curves
from heedful.reports.attributions import AnswerAttribution
from heedful.reports.charts import Chart, Series
from heedful.reports.observation import SHOWN, Observation

LARGEST_MATRIX = 25
"""Maximum number of labels for a confusion matrix; above it, only frequent mistakes are listed."""
MOST_POINTS = 1000
MOST_BARS = 30
SEEN = 8
"""Number of items of a list that are visible without expanding it."""
LONGEST_LINE = 40
"""Maximum number of characters of a target and an answer to be shown side by side."""
LONGEST_TEXT = 600
"""Maximum number of characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report as one HTML document. A notebook displays it."""

    html: str = field(repr=False)

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the report to a file.

        Raises:
            UserError: the file exists and ``overwrite`` is false, or the folder does not exist.
        """
        with (
            naming_arguments(),
            files.new_file(files.as_path("path", path), overwrite=overwrite) as partial,
        ):
            partial.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return frame("Report of a run", self.html)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredData:
    """A run's answers to labelled data."""

    data: Sequence[str]
    """Names of the files."""
    scores: Mapping[str, Any]
    observation: Observation
    why: Mapping[int, AnswerAttribution]
    """Attributions of some answers, by item number."""
    seed: int


def report(
    run: Path, record: RunRecord, card: str, scored: ScoredData | None, metrics: Mapping[str, Any]
) -> Report:
    """Return the report of a run.

    Args:
        run: the run's folder.
        record: the run's record from its folder.
        card: description of what the run does.
        scored: the run's answers to data; None to show only what the folder has.
        metrics: the scores of an earlier evaluation, from the folder.
    """
    training = curves.read_training(run)
    scores = scored.scores if scored else metrics
    values = {
        "card": card,
        "facts": _facts(record, training, scores),
        "curves": curves.curves(training),
        "scored": scored is not None,
        "data": [Path(path).name for path in (scored.data if scored else scores.get("data", []))],
        "scores": _score_rows(scored, scores),
        "items": scores.get("items"),
        "per_class": _per_class(scores),
        "confusion": _confusion(scores),
        **_answer_values(scored),
    }
    body, chinese_body = (fill(PACKAGE, "report.html", values, one) for one in (ENGLISH, chinese()))
    styles = [asset("heedful.explanations", "views/shading.css"), asset(PACKAGE, "report.css")]
    title = f"Report: {run.resolve().name}"  # "." has no name
    return Report(document(title=title, body=body, chinese_body=chinese_body, styles=styles))


def _facts(
    record: RunRecord, training: curves.Training, scores: Mapping[str, Any]
) -> dict[str, str]:
    settings = record.settings
    facts = {
        "task": record.task,
        "initial model": _initial_model(record),
        "training data": ", ".join(Path(data_name(str(one["file"]))).name for one in record.data),
        "steps": f"{max(training.steps, default=0):,}" if training.steps else "",
        "training tokens": f"{training.tokens:,}" if training.steps else "",
        "maximum length": f"{record.max_length:,} tokens",
        "seed": str(settings.get("seed", "")),
        "versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
        "BLEU": scores.get("signatures", {}).get("bleu", ""),
        "answers compared by": scores.get("compared_by", ""),
    }
    return {name: value for name, value in facts.items() if value}


def _initial_model(record: RunRecord) -> str:
    """Return the model that the training started from, or the sizes of a model from scratch."""
    name = record.settings.get("preset" if record.from_scratch else "model")
    return str(name or "")


def _score_rows(scored: ScoredData | None, scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each score, with its confidence interval if there are items to resample."""
    bounds: Mapping[str, Interval] = {}
    if scored and scored.observation.items > 1:
        observation = scored.observation
        bounds = intervals(observation.scorer.aggregate, observation.columns, seed=scored.seed)
    return [
        {"name": name, "score": value, "interval": bounds.get(name), "bar": _bar(bounds.get(name))}
        for name, value in scores.items()
        if isinstance(value, float) and name != "tokens_per_second"
    ]


def _bar(interval: Interval | None) -> dict[str, float] | None:
    """Return the position of an interval from 0 to 1 on a scale of 100 units."""
    if interval is None or not (interval.low >= 0 and interval.high <= 1):
        return None
    low, high, score = (
        round(100 * value, 1) for value in (interval.low, interval.high, interval.score)
    )
    return {"low": low, "width": max(round(high - low, 1), 0.6), "score": score}


def _per_class(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of labels, and the number omitted. Of many labels, the best are omitted."""
    rows, more = shown_labels(scores)
    return {"rows": rows, "more": more}


def _confusion(scores: Mapping[str, Any]) -> dict[str, Any] | None:
    if not has_confusion(scores):
        return None
    names = [row["label"] for row in scores["per_class"]]
    mistakes = mistakes_of(scores)
    rows = []
    if len(names) <= LARGEST_MATRIX:
        for name, row in zip(names, scores["confusion"], strict=True):
            shades = [_shade(count / max(sum(row), 1)) for count in row]
            rows.append({"name": name, "cells": list(zip(row, shades, strict=True))})
    shown = mistakes[:SHOWN]
    return {"names": names, "rows": rows, "mistakes": shown, "more": len(mistakes) - len(shown)}


def _shade(share: float) -> int:
    """Return a shade from 0 to 8: 0 only for a share of 0."""
    return 0 if not share else max(1, round(8 * share))


def _answer_values(scored: ScoredData | None) -> dict[str, Any]:
    """Return the template values that need answers to data."""
    if scored is None:
        return dict.fromkeys(("calibration", "lengths", "scatter", "error_types"), None) | {
            "lists": [],
            "score_name": None,
            "explained": 0,
            "patches": False,
        }
    observation = scored.observation
    return {
        "calibration": _calibration(observation),
        "lengths": _lengths(observation),
        "scatter": _scatter(observation),
        "error_types": _error_types(observation),
        "lists": _lists(observation, scored.why),
        "explained": len(scored.why),
        "patches": any(side.patches for why in scored.why.values() for side in why.sides),
        "score_name": observation.scorer.score_name,
    }


def _calibration(observation: Observation) -> dict[str, Any] | None:
    if not len(observation.decisions):
        return None
    calibration = Calibration()
    calibration.update(*observation.decisions.T)
    bins = calibration.bins()
    points = [(one.confidence, one.accuracy) for one in bins]
    title = "Accuracy at each confidence"
    chart = charts.lines(
        title,
        [Series(name="accuracy", points=points, marked=True)],
        x_label="confidence",
        y_range=(0, 1),
        diagonal=True,
    )
    chart = replace(
        chart,
        head=["confidence", "accuracy", "answers"],
        rows=[[f"{one.confidence:.3f}", f"{one.accuracy:.3f}", f"{one.count:,}"] for one in bins],
    )
    return {"chart": chart, "bins": bins, "error": calibration_error(bins)}


def _lengths(observation: Observation) -> dict[str, Any]:
    total, used = observation.lengths.T
    # All bars cover the same number of integers.
    size = -(-(int(np.ptp(total)) + 1) // MOST_BARS)
    edges = np.arange(total.min(), total.max() + size + 1, size)
    heights, _ = np.histogram(total, bins=edges)
    chart = charts.bars(
        "Number of items by number of tokens",
        edges.tolist(),
        heights.tolist(),
        x_label="tokens",
        name="items",
    )
    return {
        "chart": chart,
        "median": float(np.median(total)),
        "longest": int(total.max()),
        "cut": int((used < total).sum()),
        "unread": int((total - used).sum()),
        "all": len(total),
    }


def _scatter(observation: Observation) -> Chart | None:
    pairs = observation.pairs
    if not len(pairs):
        return None
    step = -(-len(pairs) // MOST_POINTS)
    low, high = pairs.min(0), pairs.max(0)
    same_scale = bool((low < high[::-1]).all()) and _have_similar_ranges(low, high)
    points = [(truth, answer) for truth, answer in pairs[::step].tolist()]
    series = Series(name="answer", points=sorted(points), marked=True, joined=False)
    return charts.lines(
        "Predictions and true values", [series], x_label="truth", diagonal=same_scale
    )


def _have_similar_ranges(low: NDArray[np.float64], high: NDArray[np.float64]) -> bool:
    """Return whether targets and answers have similar ranges; a cosine and its target may not."""
    spans = high - low
    return bool(spans.max() < 4 * spans.min())


def _error_types(observation: Observation) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "count": count,
            "examples": [
                {
                    "truth": error.truth,
                    "answer": error.answer,
                    "where": result.where,
                    "texts": _texts(result),
                }
                for error, result in observation.error_examples[kind]
            ],
        }
        for kind, count in observation.error_types.most_common()
    ]


def _lists(observation: Observation, why: Mapping[int, AnswerAttribution]) -> list[dict[str, Any]]:
    """Return the lists of items worth inspecting, each with its title."""
    worst = (
        observation.worst if observation.scorer.score_name or observation.num_decided == 0 else []
    )
    by = f" by {observation.scorer.score_name}" if observation.scorer.score_name else ""
    lists = [
        ("Most confident errors", observation.surest_errors),
        ("Least confident answers", observation.least_sure),
        (f"Worst answers{by}", worst),
        ("The first answers", observation.first),
    ]
    return [{"title": title, "parts": _parts(items, why)} for title, items in lists if items]


def _parts(
    items: Sequence[ScoredItem[Any]], why: Mapping[int, AnswerAttribution]
) -> list[list[dict[str, Any]]]:
    """Return the rows that are visible, and the rows that can be expanded."""
    rows = [_row(item.result, why.get(item.index)) for item in items]
    return [part for part in (rows[:SEEN], rows[SEEN:]) if part]


def _row(result: ItemResult, why: AnswerAttribution | None) -> dict[str, Any]:
    truth, answer = _formatted(result.truth), _formatted(result.answer)
    return {
        "where": result.where,
        "why": why,
        "texts": _texts(result),
        "truth": truth,
        "answer": answer,
        "long": truth != answer and len(truth or "") + len(answer or "") > LONGEST_LINE,
        "right": result.correct,
        "score": result.score,
        "confidence": result.confidence,
    }


def _texts(result: ItemResult) -> dict[str, str]:
    return {
        name: _truncate(text if isinstance(text, str) else " | ".join(text))
        for name, text in result.texts.items()
    }


def _truncate(text: str) -> str:
    """Truncate a long text in the middle."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} … {text[-half:]}"


def _formatted(value: Any) -> str | None:
    """Format a target or an answer for reading; None if there is none."""
    if value is None:
        return None
    if isinstance(value, float):
        return charts.format_number(value)
    if isinstance(value, list):
        parts = [
            f"{one['text']} ({one['label']})" if isinstance(one, dict) else str(one)
            for one in value
        ]
        return _truncate(", ".join(parts)) or None
    return _truncate(str(value)) or "nothing"
