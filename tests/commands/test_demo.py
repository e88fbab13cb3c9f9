"""The demo from the first line to the last, with a tiny model and two steps."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.golden.copies import LATEST

from heedful.cli import run
from heedful.commands import demo
from heedful.settings import TrainSettings


@pytest.mark.parametrize("with_pictures", [True, False])
def test_the_demo_runs_anywhere(
    tiny_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    with_pictures: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").symlink_to(tiny_model)  # a folder wins over the package of that name
    monkeypatch.setattr(demo, "TRAINING", TrainSettings(steps=2, batch_size=4))
    monkeypatch.setattr(demo, "NEW_TICKETS", ["the sky is blue", "a grass"])  # tiny as the model
    if not with_pictures:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["demo", "--out", "runs/demo"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"1. Training on {demo.TICKETS / 'train.csv'}, starting from")
    assert sum(line.endswith(tuple(demo.NEW_TICKETS)) for line in said) == 2
    needed = "plots need matplotlib: pip install 'heedful[plot]'"
    assert (f"4. No explanation of the first answer: {needed}" in said) == (not with_pictures)
    assert Path("runs/demo/attention.png").exists() == with_pictures
    assert said[-1].startswith("Next: heedful predict runs/demo ")
    assert json.loads(Path("runs/demo/metrics.json").read_text())["items"] == 151
    if with_pictures:
        before = Path("runs/demo/manifest.json").stat().st_mtime_ns
        assert run(["demo", "--out", "runs/demo"]) == 0
        assert Path("runs/demo/manifest.json").stat().st_mtime_ns > before


def test_what_the_demo_needs_is_named_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.csv").touch()
    assert run(["demo", "--out", str(tmp_path / "run"), "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"heedful: --data {tmp_path}: no test.csv in it\n"


@pytest.mark.parametrize("name", ["classify", "tag"])
def test_a_run_that_is_no_demo_is_not_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(LATEST / name, tmp_path / "mine"))
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert run(["demo", "--out", str(out)]) == 2
    error = f"heedful: --out {out} holds a run that is not an earlier demo; give another"
    assert capsys.readouterr().err == f"{error} folder\n"
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
