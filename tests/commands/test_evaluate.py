"""``heedful evaluate`` prints the scores even if it cannot store them."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from tests.golden.copies import LATEST

import heedful
from heedful.cli import run

DATA = str(LATEST / "data/classify.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_does_not_hide_the_scores(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / f".metrics.json.{threading.get_native_id()}.partial").symlink_to("/dev/full")
    assert run(["evaluate", str(folder), "--data", DATA]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["items"] == 48
    said = f"the scores were not saved: {folder / 'metrics.json'}: No space left on device"
    assert said in err.splitlines()
    assert not (folder / "metrics.json").exists()


def test_something_in_the_way_does_not_hide_the_scores(folder: Path) -> None:
    (folder / "metrics.json").mkdir()
    said: list[str] = []
    assert heedful.evaluate(folder, DATA, say=said.append)["items"] == 48
    assert [line.partition(":")[0] for line in said] == ["the scores were not saved"]


def test_several_labels_are_separated_as_in_training(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / "many", tmp_path / "run"))
    data = LATEST / "data/many.csv"
    scores = heedful.evaluate(folder, data)
    assert scores["micro_f1"] == heedful.evaluate(folder, data, label_separator=";")["micro_f1"]
    (tmp_path / "a.csv").write_text("text,label\nthe red horse,animal|food\n", "utf-8")
    assert heedful.evaluate(folder, tmp_path / "a.csv", label_separator="|")["items"] == 1


def test_a_run_that_tells_no_labels_apart_is_warned_of(tiny_model: Path, tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "x" if number else "y"} for number in range(30)]
    still = {"learning_rate": 1e-12, "head_learning_rate": 1e-12, "steps": 1}
    heedful.train("classify", train=rows, out=tmp_path / "run", model=str(tiny_model), **still)
    lines: list[str] = []
    heedful.evaluate(tmp_path / "run", rows, say=lines.append)
    assert lines[-1].startswith("each of the 30 items gets the label 'x', which 29 have")
