"""What is written is read back, and is there whole or not at all."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.golden.copies import LATEST

from heedful import files
from heedful.cli import run

LATIN = os.fsdecode(b"caf\xe9")
"""A name of a file that is not UTF-8, as Python has it."""


def test_json_holds_names_that_are_not_utf_8(tmp_path: Path) -> None:
    path, value = tmp_path / "a.json", {LATIN: ["café", f"\\{LATIN}"]}
    files.write_json(path, value)
    assert files.read_json(path) == value
    assert "café" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [float("nan"), {1}])
def test_what_cannot_be_json_leaves_the_file(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})
    with pytest.raises((ValueError, TypeError)):
        files.write_json(path, {"a": value})
    assert files.read_json(path) == {"a": 1}


def test_a_folder_that_could_not_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come when the old folder has made way and the new one is not there yet."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        files.new_folder(folder, overwrite=True) as partial,
    ):
        (partial / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in folder.iterdir()] == ["old"]


def test_others_may_read_weights_as_they_may_read_the_rest(tmp_path: Path) -> None:
    plain, weights = tmp_path / "a.json", tmp_path / "a.safetensors"
    files.write_json(plain, {})
    files.write_tensors(weights, {"a": torch.ones(2)})
    assert weights.stat().st_mode == plain.stat().st_mode

    weights.chmod(0o640)
    files.write_tensors(weights, {"a": torch.zeros(2)})
    assert weights.stat().st_mode & 0o777 == 0o640


def test_commands_take_names_that_are_not_utf_8(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(LATEST / "classify", "run")
    data = f"{LATIN}.csv"
    shutil.copy(LATEST / "data/classify.csv", data)
    train = ["train", "classify", "--model", str(tiny_model), "--train", data, "--dev", data]
    assert run([*train, "--steps", "1", "--out", LATIN]) == 0
    assert json.loads(Path(LATIN, "heedful.json").read_text())["data"][0]["file"] == data
    assert run(["evaluate", "run", "--data", data]) == 0
    assert files.read_json(Path("run/metrics.json"))["data"] == [data]
    assert run(["predict", "run", "--input", data, "--out", f"{LATIN}-answers"]) == 0
    assert [path.name for path in Path(f"{LATIN}-answers").iterdir()] == [f"{LATIN}.jsonl"]
    assert run(["report", "run", "--data", data, "--out", f"{LATIN}.html"]) == 0
