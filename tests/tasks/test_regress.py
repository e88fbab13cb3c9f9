"""Regression from the command line on small files, and its wrong input."""

import json
import re
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.alike import assert_same_scores
from tests.tasks.head_rate import times_the_encoders
from tests.tiny_folders import write_folder

import heedful
from heedful import files
from heedful.checkpoints.runs import RECORD, read_record
from heedful.cli import run
from heedful.errors import UserError
from heedful.interop.exported import write_record
from heedful.reading import Record
from heedful.tasks.regress import Estimate, Regress

Out = pytest.CaptureFixture[str]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Provide pairs whose number depends on the colours they name."""
    colours = {"red": 0.0, "green": 1.0, "blue": 2.0}
    rows = ["first,second,score"]
    for number in range(4):
        for one, value in colours.items():
            for other, more in colours.items():
                score = 1 + value + more / 4
                rows.append(f"the {'very ' * number}{one} sky,a {other} apple,{score}")
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


COLUMNS = ["--text", "first", "--text-pair", "second", "--label", "score"]


def train(tiny_model: Path, data: Path, out: Path, *more: str) -> int:
    words = ["train", "regress", "--model", tiny_model, "--train", data, "--out", out, *COLUMNS]
    words += ["--epochs", "40", "--batch-size", "9", "--learning-rate", "1e-2", "--dropout", "0"]
    words += ["--head-learning-rate", "1e-2", "--precision", "fp32", *more]
    return run([str(word) for word in words])


def test_train_evaluate_predict(
    tiny_model: Path, numbers: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, numbers, out, "--dev", str(numbers)) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(numbers), *COLUMNS]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["pearson"] > 0.95
    assert scores["mse"] < 0.3
    assert_same_scores(scores, json.loads((out / "metrics.json").read_text()))

    predict = heedful.load(out)
    low, high = predict([("the red sky", "a red apple"), ("the blue sky", "a blue apple")])
    assert low.value < 1.8 < 2.7 < high.value
    assert run(["predict", str(out), "--input", str(numbers), *COLUMNS[:4], "--plain"]) == 0
    values = [float(line) for line in capsys.readouterr().out.split()]
    assert len(values) == 36
    assert values[0] < values[8]
    config = json.loads((out / "config.json").read_text())
    assert config["problem_type"] == "regression"
    card = (out / "MODEL_CARD.md").read_text()
    assert "1 to 3.5" in card
    (shown,) = re.findall("heedful predict run (.*)", card)
    assert run(["predict", str(out), *shlex.split(shown)]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,b,much", r"line 38: expected a number, found 'much'"),
        ('a,b,"0,5"', r"line 38: expected a number, found '0,5'; write a decimal point"),
        ("a,b,nan", r"line 38: expected a number, found 'nan'"),
        ("a,b,1e999", r"line 38: expected a number"),
        ("a,b,", r"line 38, column 'score': empty label"),
    ],
)
def test_what_is_no_number_is_named(
    tiny_model: Path, numbers: Path, tmp_path: Path, capsys: Out, line: str, message: str
) -> None:
    with numbers.open("a") as stream:
        stream.write(line + "\n")
    assert train(tiny_model, numbers, tmp_path / "run") == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0
    assert not (tmp_path / "run").exists()


def test_equal_numbers_are_nothing_to_learn(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    data = tmp_path / "flat.csv"
    data.write_text("first,second,score\na,b,2\nb,c,2\n")
    assert train(tiny_model, data, tmp_path / "run") == 2
    assert "every number of the training data is 2" in capsys.readouterr().err


def test_numbers_that_float32_cannot_tell_apart_are_refused(
    tiny_model: Path, tmp_path: Path, capsys: Out
) -> None:
    data = tmp_path / "moments.csv"
    data.write_text("first,second,score\na,b,1700000001\nb,c,1700000003\n")
    assert train(tiny_model, data, tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert "numbers of the training data, 1700000001 for example, differ by about 1," in error
    assert "subtract 1700000002 from each" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("steps", "times"), [(500, 2), (100, 4), (1, 20)])
def test_a_fresh_output_learns_faster_in_few_steps(
    steps: int, times: int, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "a", "label": number} for number in (1, 2)]
    options = {"train": rows, "out": tmp_path / "run", "model": str(tiny_model), "steps": steps}
    assert times_the_encoders(monkeypatch, "regress", **options) == pytest.approx(times)


def test_a_trained_output_goes_on(numbers: Path, tmp_path: Path) -> None:
    """From a run, from some layers of a teacher, from an export, and with pruned heads."""
    write_folder("bert", tmp_path / "model", num_hidden_layers=2)
    still: dict[str, Any] = {"learning_rate": 1e-12, "head_learning_rate": 1e-12, "steps": 1}
    options: dict[str, Any] = {"text": "first", "label": "score", "precision": "fp32"}
    first, base = tmp_path / "first", str(tmp_path / "model")
    heedful.train("regress", train=numbers, model=base, out=first, epochs=2, **options)
    output = load_file(first / "model.safetensors")
    shutil.copytree(first, tmp_path / "hf")  # as `export --format hf` writes it
    write_record(read_record(first), tmp_path / "hf")
    (tmp_path / "hf" / RECORD).unlink()
    changed = tmp_path / "higher.csv"
    changed.write_text("first,score\na,3\nb,1\n")
    for name, more in {
        "on": {"model": str(first)},
        "smaller": {"teacher": first, "student_layers": 1},
        "exported": {"model": str(tmp_path / "hf")},
        "smaller-exported": {"teacher": tmp_path / "hf", "student_layers": 1},
        "pruned": {"model": str(first), "prune": 0.25},
    }.items():
        out = tmp_path / name
        heedful.train("regress", train=changed, out=out, **(options | still | more))
        again = load_file(out / "model.safetensors")
        for weights in ("classifier.weight", "classifier.bias"):
            torch.testing.assert_close(again[weights], output[weights])


def test_an_output_for_numbers_of_another_size_starts_afresh(
    numbers: Path, tiny_model: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"text": "first", "label": "score", "precision": "fp32", "steps": 1}
    first, second = tmp_path / "first", tmp_path / "second"
    heedful.train("regress", train=numbers, model=str(tiny_model), out=first, **options)
    larger = tmp_path / "larger.csv"
    larger.write_text("first,score\na,0\nb,2000\n")
    heedful.train("regress", train=larger, model=str(first), out=second, **options)
    bias = load_file(second / "model.safetensors")["classifier.bias"]
    assert bias.tolist() == pytest.approx([1000], abs=0.1)


def test_a_run_that_is_not_finished_is_named(
    numbers: Path, tiny_model: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "first"
    assert train(tiny_model, numbers, out, "--max-minutes", "1e-9") == 0
    record = read_record(out)
    files.write_json(out / RECORD, asdict(record) | {"goal": {}})  # as before the end
    for name in ("config.json", "model.safetensors", "manifest.json"):
        (out / name).unlink()
    capsys.readouterr()
    assert train(out, numbers, tmp_path / "second") == 2
    assert "first: training has not finished" in capsys.readouterr().err


def test_an_output_for_classes_starts_afresh(numbers: Path, tmp_path: Path) -> None:
    write_folder("bert", tmp_path / "model", head="sequence", num_labels=3)
    model, out = str(tmp_path / "model"), tmp_path / "run"
    options: dict[str, Any] = {"text": "first", "label": "score", "precision": "fp32"}
    heedful.train("regress", train=numbers, model=model, out=out, steps=1, **options)
    bias = load_file(out / "model.safetensors")["classifier.bias"]
    assert bias.tolist() == pytest.approx([2.25], abs=0.01)


@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_numbers_of_any_size_are_learnt_alike(
    numbers: Path, tiny_model: Path, tmp_path: Path, scale: float
) -> None:
    """Prices and small shares of the same distribution, from the same texts."""
    header, *rows = numbers.read_text().splitlines()
    scaled = tmp_path / "scaled.csv"
    values = [line.rpartition(",") for line in rows]
    lines = [f"{texts},{(float(value) - 2) * scale!r}" for texts, _, value in values]
    scaled.write_text("\n".join([header, *lines]) + "\n")
    options: dict[str, Any] = {"text": "first", "label": "score", "precision": "fp32"}
    options |= {"learning_rate": 1e-2, "head_learning_rate": 1e-2, "dropout": 0.0}
    options |= {"model": str(tiny_model), "epochs": 10, "batch_size": 9}
    answers = []
    for name, data in {"as-given": numbers, "scaled": scaled}.items():
        heedful.train("regress", train=data, out=tmp_path / name, **options)
        predict = heedful.load(tmp_path / name, precision="fp32")
        answers.append([answer.value for answer in predict(["the red sky", "the blue sky"])])
    expected, found = answers
    assert abs(expected[1] - expected[0]) > 0.5
    assert [value / scale + 2 for value in found] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("value", [2.06074e-7, -0.0123456, 0.25, 1_700_000_000.5])
def test_numbers_of_any_size_are_written(value: float) -> None:
    answer = Estimate(value=value, tokens_total=1, tokens_used=1, windows=1)
    record = Record(text="a", text_pair=None, labels=("2e-7",), source="f", line=1)
    (result,) = Regress(pairs=False).item_scorer().results([(answer, record)])
    written = [answer.to_dict()["value"], result.answer, float(answer.plain())]
    assert written == pytest.approx([value] * 3, rel=1e-9)


@pytest.mark.parametrize("deviation", [0.0, -1.0])
def test_a_damaged_deviation_is_refused(
    numbers: Path, tiny_model: Path, tmp_path: Path, deviation: float
) -> None:
    out = tmp_path / "run"
    options: dict[str, Any] = {"text": "first", "label": "score", "steps": 1}
    heedful.train("regress", train=numbers, model=str(tiny_model), out=out, **options)
    record = json.loads((out / "heedful.json").read_text())
    record["goal"]["deviation"] = deviation
    (out / "heedful.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=f"deviation is {deviation}; it must be above 0"):
        heedful.load(out)


def test_large_numbers_that_differ_little_are_scored() -> None:
    scores = Regress(pairs=False).scores()
    labels = [1_700_000_000 + number for number in range(4)]
    records = [
        Record(text="a", text_pair=None, labels=(str(label),), source="f", line=1)
        for label in labels
    ]
    answers = [
        Estimate(value=label + 0.5, tokens_total=1, tokens_used=1, windows=1) for label in labels
    ]
    scores.update(answers, records)
    found = scores.compute()
    assert found["pearson"] == pytest.approx(1)
    assert found["mse"] == pytest.approx(0.25)
