"""Grouping by length: batches of similar lengths, or of any."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.batches import Step, plan_epoch
from heedful.batches.buckets import MAX_PADDING

SHORT, LONG = "the sky", "the sky was very very very very very very blue"


def mixed_steps(task: str, start: Path, out: Path, **settings: Any) -> int:
    """Train for an epoch of eight steps, and count those of short and long texts."""
    texts = [SHORT, LONG] * 16
    if task == "tag":
        entity = {"start": 4, "end": 7, "label": "thing"}
        rows = [{"text": text, "entities": [entity]} for text in texts]
    else:
        rows = [{"text": text, "label": "ab"[number // 2 % 2]} for number, text in enumerate(texts)]
    heedful.train(
        task,
        train=rows,
        model=str(start),
        out=out,
        batch_size=4,
        epochs=1,
        device="cpu",
        say=lambda line: None,
        **settings,
    )
    logged = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    tokens = [row["tokens"] for row in logged if "loss" in row]
    assert len(tokens) == 8
    alike = {4 * (len(text.split()) + 2) for text in (SHORT, LONG)}
    assert sum(tokens) == 4 * sum(alike)
    return sum(count not in alike for count in tokens)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_what_learns_together(task: str, tiny_model: Path, tmp_path: Path) -> None:
    alike, mixed = (
        mixed_steps(task, tiny_model, tmp_path / str(by), group_by_length=by)
        for by in (True, False)
    )
    assert alike <= 4 < mixed
    assert mixed_steps(task, tiny_model, tmp_path / "default") == alike


@pytest.mark.parametrize(
    ("task", "settings", "most"),
    [
        ("classify", {"group_by_length": True}, math.inf),
        ("classify", {"group_by_length": False}, math.inf),  # computed without padding
        ("classify", {"group_by_length": False, "hidden_weight": 1.0}, MAX_PADDING),
        ("tag", {"group_by_length": False}, MAX_PADDING),
    ],
)
def test_where_padding_is_computed_there_is_little(
    task: str,
    settings: dict[str, Any],
    most: float,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def recorded(*arguments: Any, max_padding: float, **options: Any) -> list[Step]:
        asked.append(max_padding)
        return plan_epoch(*arguments, max_padding=max_padding, **options)

    if "hidden_weight" in settings:
        mixed_steps(task, tiny_model, tmp_path / "teacher")
        settings = {**settings, "teacher": str(tmp_path / "teacher")}
    monkeypatch.setattr("heedful.training.examples.plan_epoch", recorded)
    mixed_steps(task, tiny_model, tmp_path / "run", **settings)
    assert asked == [most]
