"""Multiple choice from the command line on small files, and its wrong input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits

import heedful
from heedful.cli import run
from heedful.errors import UserError
from heedful.models import load_model
from heedful.predictor import Predictor
from heedful.reading.choices import Choices
from heedful.settings import ColumnSettings, PredictSettings
from heedful.task import LengthLimit
from heedful.tasks import choose
from heedful.tasks.choose import Choose
from heedful.tokens import BertTokenizer

Out = pytest.CaptureFixture[str]
COLOURS = ["red", "green", "blue"]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Provide questions whose answer is green, at any position."""
    rows: list[dict[str, Any]] = []
    for number in range(12):
        turned = COLOURS[number % 3 :] + COLOURS[: number % 3]
        question = f"the {'very ' * (number % 4)}grass is"
        rows.append({"question": question, "choices": turned, "answer": "green"})
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def train(tiny_model: Path, data: Path, out: Path, *more: str, rate: str = "1e-2") -> int:
    words = ["train", "choose", "--model", tiny_model, "--train", data, "--out", out]
    words += ["--epochs", "60", "--batch-size", "6", "--learning-rate", rate, "--dropout", "0"]
    words += ["--head-learning-rate", rate, "--precision", "fp32", *more]
    return run([str(word) for word in words])


def test_train_evaluate_predict(
    tiny_model: Path, questions: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    dev = ["--dev", str(questions), "--evaluate-every", "60"]
    assert train(tiny_model, questions, out, *dev) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(questions)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["accuracy"] > 0.9
    assert scores["items"] == 12

    model = heedful.load(out)
    answers = model([("the grass is", "blue", "red", "green"), ("the sky is", "green", "red")])
    assert [answer.text for answer in answers] == ["green", "green"]
    assert [answer.choice for answer in answers] == [2, 0]
    assert sum(answers[0].scores) == pytest.approx(1)
    assert_same_bits(answers[0].score, max(answers[0].scores), "moved")
    assert (answers[0].tokens_total, answers[0].tokens_used) == (12, 12)

    capsys.readouterr()
    assert run(["predict", str(out), "the grass is", "red", "green", "blue", "--all-scores"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["choice"], row["text"]) == (1, "green")
    assert len(row["scores"]) == 3
    assert run(["predict", str(out), "--input", str(questions), "--plain"]) == 0
    assert capsys.readouterr().out.split() == ["green"] * 12
    again = tmp_path / "again"
    assert train(out, questions, again, "--steps", "1", rate="1e-9") == 0
    assert run(["predict", str(again), "the grass is", "red", "green", "blue", "--plain"]) == 0
    assert capsys.readouterr().out.strip() == "green"


def _records(*choices: tuple[str, ...]) -> list[Choices]:
    return [
        Choices(question="the sky is", choices=each, answer=1, where=f"line {number}")
        for number, each in enumerate(choices, start=1)
    ]


def test_the_loss_is_that_of_whole_items(tiny_model: Path) -> None:
    """The batch's rows are grouped item by item."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    task = Choose(choices=2)
    model = load_model(tiny_model, head="choice")
    records = _records(("blue", "very very red"), ("green", "a sky"), ("a", "the"))
    fit = LengthLimit(max_length=20, long_text="head")
    encoded = list(task.encode(records, tokenizer, fit, labelled=True))
    examples = [piece for parts in encoded for piece in parts.pieces]
    assert [(example.part, example.labels) for example in examples] == [(0, (1,)), (1, (1,))] * 3
    draw = choose.Draw(seed=0, epoch=0, rows=torch.arange(6).numpy())
    batch = task.batch(examples, tokenizer, draw)
    total = task.loss(model, batch)
    assert task.loss_divisor(batch) == 3
    parts = []
    for one, other in zip(examples[::2], examples[1::2], strict=True):
        alone = [task.batch([each], tokenizer, None) for each in (one, other)]
        scores = [task.run_model(model, each, PredictSettings()) for each in alone]
        parts.append(-torch.cat(scores).flatten().log_softmax(0)[1])
    torch.testing.assert_close(total, torch.stack(parts).sum())


def test_long_choices_are_read_in_windows(
    tiny_model: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, questions, out, "--steps", "1", "--max-length", "12") == 0
    long = "very " * 30 + "blue"
    answer = heedful.load(out)(("the sky is", "red", long))
    assert answer.tokens_used == answer.tokens_total == 3 + 1 + 3 + 31
    head = Predictor.load(out, PredictSettings(long_text="head"))(("the sky is", "red", long))
    assert head.tokens_used < head.tokens_total == 38


def test_another_number_of_choices_is_named(
    tiny_model: Path, questions: Path, tmp_path: Path, capsys: Out
) -> None:
    with questions.open("a") as stream:
        stream.write('{"question": "the sky is", "choices": ["red", "blue"], "answer": 1}\n')
    assert train(tiny_model, questions, tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert f"{questions}, line 13: 2 choices; all questions of a run have the same number" in error
    assert "here 3" in error
    assert error.count("\n") == 1


def test_what_cannot_be_chosen_from_is_named(
    tiny_model: Path, questions: Path, tmp_path: Path, capsys: Out
) -> None:
    assert train(tiny_model, questions, tmp_path / "run", "--long-text", "window") == 2
    assert "--long-text window: choices are compared as a whole" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"text 1: at least 2 choices are needed .* there is 1"):
        Choose.from_texts(["a question", "a choice"])
    with pytest.raises(UserError, match="text 2: at least 2 choices"):
        Choose.from_texts([("a", "b", "c"), ("a", "b")])  # type: ignore[list-item]
    with pytest.raises(UserError, match="text 2: expected a question with its choices, like the"):
        Choose.from_texts([("a", "b", "c"), "d"])  # type: ignore[list-item]
    nothing: Any = ()
    with pytest.raises(UserError, match=r"text 1: at least 2 choices are needed .* there is 0"):
        Choose.from_texts([nothing])
    assert Choose.from_texts([]) == []
    path = tmp_path / "odd.jsonl"
    rows = [{"question": "a?", "choices": ["a", "b", "c"][:count], "answer": 0} for count in (2, 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match="line 2: 3 choices"):
        Choose.from_training_data(tiny.recipe("choose", [path]))


def test_the_real_files_can_be_read(data_folder: Path) -> None:
    counts = {}
    for name in ("train", "valid"):
        records = list(
            Choose.read(
                [data_folder / f"commonsenseqa/{name}.jsonl.gz"], ColumnSettings(), labelled=True
            )
        )
        assert {len(record.choices) for record in records} == {5}
        counts[name] = len(records)
    assert counts == {"train": 9741, "valid": 1221}


def test_the_windows_of_a_choice_are_averaged(tiny_model: Path) -> None:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    pieces = [choose.Example(ids=np.arange(3, dtype=np.int32), part=part) for part in (0, 1, 1)]
    fitted = choose.Fitted(pieces=pieces, tokens_total=9, tokens_used=9)
    outputs = [torch.tensor([value]) for value in (2.0, 3.0, 0.0)]
    (record,) = _records(("red", "blue"))
    task = Choose(choices=2)
    answer = task.decode(record, fitted, outputs, PredictSettings(), tokenizer)
    assert answer.scores == pytest.approx(torch.tensor([2.0, 1.5]).softmax(0).tolist())
    assert (answer.choice, answer.text) == (0, "red")
