"""``heedful evaluate --predictions``: each answer beside the true one, for every task."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.asking import command
from tests.golden.copies import ONE_OF_EACH, copy_to

import heedful
from heedful.cli import run
from heedful.spreadsheets import cell


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("predictions"))


@pytest.fixture(autouse=True)
def in_golden(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_task_writes_its_answers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    printed = json.loads(command(["evaluate", *ONE_OF_EACH[name], "--predictions", str(path)]))
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len({tuple(row) for row in rows}) == 1, "every row has the same keys"
    assert sum(row["tokens_used"] for row in rows) == printed["tokens_used"]
    if printed["items"] != len(rows):  # of plain text, it is the tokens that are counted
        assert name == "writer"
    if rows[0]["right"] is not None:
        share = sum(row["right"] for row in rows) / len(rows)
        key = {"answer": "exact_match", "embed": "recall_at_1"}.get(name, "accuracy")
        assert share == pytest.approx(printed.get(key, share), abs=1e-6)


def test_what_a_row_says(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("text,label\nthe red cat sleeps,animal\nthe red cat sleeps,place\n", "utf-8")
    heedful.evaluate("classify", data, predictions=tmp_path / "answers.jsonl")
    first, second = map(json.loads, (tmp_path / "answers.jsonl").read_text("utf-8").splitlines())
    assert first["where"] == f"{data}, line 2"
    assert (first["text"], first["truth"]) == ("the red cat sleeps", "animal")
    assert (first["answer"], first["right"], second["right"]) == ("animal", True, False)
    assert 0.9 < first["confidence"] <= 1
    assert (first["tokens_total"], first["tokens_used"]) == (4, 4)


def test_no_cell_is_run_as_a_formula(tmp_path: Path) -> None:
    texts = ["=1+1", "+1-1", "-a1", "@SUM(A1)", "\tx", "  =1", "\n=1", "\uff1d1", "a=b", "the cat"]
    data = tmp_path / "new.jsonl"
    data.write_text("\n".join(json.dumps({"text": t, "label": "animal"}) for t in texts), "utf-8")
    path = tmp_path / "answers.csv"
    command(["evaluate", "classify", "--data", str(data), "--predictions", str(path)])
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["text"] for row in rows] == [
        *("'=1+1", "'+1-1", "'-a1", "'@SUM(A1)", "'\tx", "'  =1", "'\n=1", "'\uff1d1"),
        *("a=b", "the cat"),
    ]


@pytest.mark.parametrize("number", [-1.5, "-1", "+1", "-.5", "-1.5e-3"])
def test_a_number_is_no_formula(number: float | str) -> None:
    assert cell(number) == number


@pytest.mark.parametrize("table", [list, pa.Table.from_pylist])
def test_data_in_memory_is_told_by_its_rows(table: Callable[[Any], Any], tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [{"text": text, "label": "animal"} for text in ("the cat", "a dog")]
    heedful.evaluate("classify", table(rows), predictions=path)
    answers = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [answer["where"] for answer in answers] == ["data, row 1", "data, row 2"]


def test_lists_are_json_in_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    command(["evaluate", *ONE_OF_EACH["spans"], "--predictions", str(path)])
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    entities = [entity for row in rows for entity in json.loads(row["answer"])]
    assert {entity["label"] for entity in entities} == {"PER", "LOC"}


def test_a_file_is_only_replaced_if_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("mine")
    words = ["evaluate", *ONE_OF_EACH["classify"], "--predictions", str(path)]
    assert run(words) == 2
    assert capsys.readouterr().err == (
        f"heedful: {path} exists; choose another file or give --overwrite\n"
    )
    assert path.read_text() == "mine"
    assert run([*words, "--overwrite"]) == 0
    assert path.read_text("utf-8").startswith("where,text,")


@pytest.mark.parametrize(
    ("name", "message"),
    [("answers.txt", "must end in .jsonl or .csv"), ("none/answers.csv", "there is no folder")],
)
def test_a_file_that_cannot_be_made(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = str(tmp_path / name)
    assert run(["evaluate", *ONE_OF_EACH["classify"], "--predictions", path]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "picture", "message"),
    [
        ("classify", "a.pdf", "must end in .png or .svg"),
        ("classify", "none/a.png", "there is no folder"),
        ("regress", "a.png", "only a run that gives each text one label"),
        ("many", "a.png", "only a run that gives each text one label"),
    ],
)
def test_a_picture_that_cannot_be_made_is_refused_before_anything_is_scored(
    name: str, picture: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ["evaluate", name, "--data", "absent.csv", "--picture", str(tmp_path / picture)]
    assert run(words) == 2
    assert message in capsys.readouterr().err


def test_a_picture_is_replaced_only_if_that_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "matrix.svg"
    path.write_text("mine", encoding="utf-8")
    words = ["evaluate", *ONE_OF_EACH["classify"], "--picture", str(path)]
    assert run(words) == 2
    assert "matrix.svg exists; choose another file" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert run([*words, "--overwrite"]) == 0
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert [each.name for each in tmp_path.iterdir()] == ["matrix.svg"]


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("text,label\nthe red cat sleeps,animal\nthe red cat sleeps,nothing\n", "utf-8")
    path = tmp_path / "answers.csv"
    assert run(["evaluate", "classify", "--data", str(data), "--predictions", str(path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]
