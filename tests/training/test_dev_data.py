"""Long development data, and development data without anything to score."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.checkpoints import runs
from heedful.errors import UserError

LONG = "the very red apple is a blue sky very green grass"
PAIR: dict[str, Any] = {"text_pair": "other"}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def train(task: str, start: Path, train: Path, dev: Path, out: Path, **more: Any) -> Any:
    settings: dict[str, Any] = {"batch_size": 2, "precision": "fp32", "say": lambda line: None}
    settings |= {"train": train, "dev": dev, "model": str(start), "out": out, "steps": 2}
    return heedful.train(task, **settings | more)


def rows_of(task: str, text: str, other: str) -> list[dict[str, Any]]:
    if task == "choose":
        return [{"question": text, "choices": [other, text], "answer": at % 2} for at in range(4)]
    return [{"text": text, "other": other, "label": at % 2} for at in range(4)]


@pytest.mark.parametrize("task", ["classify", "regress", "choose"])
def test_of_pairs_without_room_for_windows_the_head_is_scored(
    task: str, tiny_model: Path, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", rows_of(task, LONG, f"{LONG} was red"))
    columns = PAIR if task != "choose" else {}
    out = tmp_path / "run"
    scores = train(task, tiny_model, data, data, out, max_length=12, **columns).scores
    # Three tokens of the twelve are special ones.
    texts = 4 * (2 if task == "choose" else 1)
    assert scores["tokens_used"] == 9 * texts < scores["tokens_total"]
    found = heedful.evaluate(out, data, precision="fp32", say=lambda line: None, **columns)
    assert found["tokens_used"] == scores["tokens_used"]


@pytest.mark.parametrize(("rule", "used"), [(None, 11), ("head", 6), ("head-tail", 6)])
def test_long_texts_are_scored_as_they_are_learnt(
    rule: Any, used: int, tiny_model: Path, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", [{"text": LONG, "label": at} for at in range(4)])
    more = {"max_length": 8, "long_text": rule}
    scores = train("classify", tiny_model, data, data, tmp_path / "run", **more).scores
    assert (scores["tokens_total"], scores["tokens_used"]) == (4 * 11, 4 * used)


def _question(question: str) -> dict[str, Any]:
    context = f"{LONG} {LONG}"
    return {"question": question, "context": context, "answers": [{"text": "very", "start": 4}]}


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "answer": (
        [_question("is it red")],
        [_question("is it red"), _question(LONG)],
        {"max_length": 16},
        "line 2: the question has 11 tokens; with max_length 16 it may have at most 7",
    ),
    "classify": (
        [{"text": "red", "label": at} for at in range(2)],
        [{"text": "red", "label": 0}, {"text": LONG, "label": 0}],
        {"max_length": 12, "long_text": "refuse"},
        "line 2: the text has 11 tokens, but only 10 fit; see long_text",
    ),
    "embed": (
        [{"text": "red", "other": other} for other in ("apple", "grass")],
        [{"text": text, "other": "apple"} for text in ("red", "very red")],
        PAIR,
        "every pair of dev has the same second text",
    ),
}


@pytest.mark.parametrize("task", REFUSED)
def test_what_cannot_be_scored_is_refused_before_training(
    task: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, dev_rows, more, message = REFUSED[task]
    data, dev = (
        write(tmp_path / name, r) for name, r in (("a.jsonl", rows), ("b.jsonl", dev_rows))
    )
    monkeypatch.setattr("heedful.training.run.fit", lambda run: pytest.fail("it trains"))
    out = tmp_path / "run"
    with pytest.raises(UserError, match=re.escape(message)):
        train(task, tiny_model, data, dev, out, **more)
    assert not out.exists()


def test_a_run_goes_on_with_the_same_development_data(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text, "label": text} for text in ("red", "blue")]
    data, dev = (write(tmp_path / name, rows) for name in ("data.jsonl", "dev.jsonl"))
    out, more = tmp_path / "run", {"steps": 4, "checkpoint_every": 2, "evaluate_every": 2}
    append = runs.append_metrics

    def dying(folder: Path, row: dict[str, object]) -> None:
        append(folder, row)
        if row["step"] == 3:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(runs, "append_metrics", dying)
        with pytest.raises(MemoryError):
            train("classify", tiny_model, data, dev, out, **more)
    write(dev, [{"text": text, "label": "red"} for text in ("red", "blue")])
    with pytest.raises(UserError, match=re.escape(f"its files have changed: {dev}")):
        train("classify", tiny_model, data, dev, out, resume=True, **more)
    write(dev, rows)
    assert train("classify", tiny_model, data, dev, out, resume=True, **more).step == 4


def test_development_data_that_is_also_training_data_is_named(
    tiny_model: Path, tmp_path: Path
) -> None:
    rows = [{"text": "red", "label": at % 2} for at in range(4)]
    data, copy = (write(tmp_path / f"{name}.jsonl", rows) for name in ("data", "copy"))
    other = write(tmp_path / "other.jsonl", rows[:2])
    for dev, message in (
        (data, f"{data} in dev is in train, too"),
        (copy, f"{copy} in dev is the same as {data} in train"),
        (other, None),
    ):
        lines: list[str] = []
        train("classify", tiny_model, data, dev, tmp_path / dev.stem, say=lines.append)
        notes = [line for line in lines if "how well the model remembers" in line]
        assert [note.partition(":")[0] for note in notes] == ([message] if message else [])


@pytest.mark.parametrize(("schedule", "noted"), [("linear", True), ("constant", False)])
def test_a_run_that_time_ends_says_how_to_let_the_rate_decay(
    schedule: str, noted: bool, tiny_model: Path, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", [{"text": "red", "label": at} for at in range(4)])
    lines: list[str] = []
    more: dict[str, Any] = {"steps": 9, "max_minutes": 1e-9, "warmup": 0, "schedule": schedule}
    train("classify", tiny_model, data, data, tmp_path / "run", say=lines.append, **more)
    assert any("steps 1 takes as long, and lets it decay" in line for line in lines) == noted
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert "Trained for 1 of 9 steps; the weights are those of step 1." in card


def test_of_equally_good_steps_the_last_is_kept(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", rows_of("classify", "red", "blue"))
    still = {"learning_rate": 1e-12, "head_learning_rate": 1e-12, "evaluate_every": 1, "steps": 4}
    assert train("classify", tiny_model, data, data, tmp_path / "run", **still).best_step == 4
    still["patience"] = 2
    impatient = train("classify", tiny_model, data, data, tmp_path / "impatient", **still)
    assert (impatient.best_step, impatient.step) == (3, 3)
    still["average"] = 2
    train("classify", tiny_model, data, data, tmp_path / "mean", **still)
    card = (tmp_path / "mean" / "MODEL_CARD.md").read_text()
    assert "Trained for 3 of 4 steps; the weights are the mean of those of steps 2, 3." in card


@pytest.mark.parametrize(("patience", "noted"), [(2, False), (3, True)])
def test_a_run_that_patience_cannot_shorten_says_so(
    patience: int, noted: bool, tiny_model: Path, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", rows_of("classify", "red", "blue"))
    lines: list[str] = []
    more: dict[str, Any] = {"steps": 4, "evaluate_every": 1, "patience": patience}
    train("classify", tiny_model, data, data, tmp_path / "run", say=lines.append, **more)
    note = "patience 3 cannot end it early, with 4 evaluations: give a smaller evaluate_every"
    assert any(note in line for line in lines) == noted
