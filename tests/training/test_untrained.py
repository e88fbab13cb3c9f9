"""What a run says of a model with random weights."""

from pathlib import Path
from typing import Any

import pytest

import heedful


def said(task: str, start: Path, out: Path, **settings: Any) -> str:
    """Train for a step, and return what the run says of random weights."""
    if task == "tag":
        entity = {"start": 4, "end": 7, "label": "thing"}
        rows: list[dict[str, Any]] = [{"text": "the sky", "entities": [entity]}] * 2
    else:
        rows = [
            {"text": "the sky", "text_pair": "a sky", "label": "1"},
            {"text": "green grass", "text_pair": "grass", "label": "2"},
        ]
    if task == "embed":
        settings["text_pair"] = "text_pair"
    lines: list[str] = []
    heedful.train(
        task,
        train=rows,
        model=str(start),
        out=out,
        steps=1,
        warmup=0,
        device="cpu",
        say=lines.append,
        **settings,
    )
    return "".join(line for line in lines if "random" in line)


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "embed"])
def test_random_weights_need_more_steps_at_a_higher_rate(
    task: str, tiny_model: Path, tmp_path: Path
) -> None:
    head = "" if task == "embed" else ", head_learning_rate 0.0005"
    assert said(task, tiny_model, tmp_path / "random") == (
        "the weights of the model are random, not pre-trained: every bias is 0; to train from "
        f"scratch, give learning_rate 0.0005{head} and steps 2000 or more"
    )
    assert said(task, tmp_path / "random", tmp_path / "trained") == ""
    assert said(task, tiny_model, tmp_path / "given", learning_rate=5e-4) == ""
