"""Files are written completely or not at all, and read back unchanged."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest
import torch
from safetensors import SafetensorError
from tests.golden.copies import LATEST

from heedful import files
from heedful.cli import run
from heedful.commands import parts
from heedful.errors import UserError, message_of
from heedful.tokens.sentencepiece_file import read_model
from heedful.tokens.vocabulary import read_merges, read_tokens

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
    """Ctrl-C may come after the old folder was moved and before the new one is in its place."""
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


def test_what_a_link_points_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/model").mkdir()
    (tmp_path / "disk/model/old").touch()
    (tmp_path / "disk/a.txt").touch()
    for name in ("model", "a.txt"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    with files.new_folder(tmp_path / "model", overwrite=True) as partial:
        (partial / "new").touch()
    with files.new_file(tmp_path / "a.txt", overwrite=True) as partial:
        partial.write_text("new")
    assert [path.name for path in (tmp_path / "disk/model").iterdir()] == ["new"]
    assert (tmp_path / "disk/a.txt").read_text() == "new"
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "a.txt").is_symlink()
    assert {path.name for path in tmp_path.rglob("*")} == {"disk", "model", "a.txt", "new"}


@pytest.mark.parametrize("name", [".", "inner/.."])
def test_a_folder_without_a_name_of_its_own_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    monkeypatch.chdir(folder)
    with files.new_folder(Path(name), overwrite=True) as partial:
        (partial / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in folder.iterdir()] == ["new"]


def test_answers_and_exports_go_where_a_link_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = LATEST / "data/classify.csv"
    predict = ["predict", str(LATEST / "classify"), "--input", str(asked)]
    export = ["export", str(LATEST / "classify"), "--format", "hf"]
    for name, words in (("answers", [*predict, "--out"]), ("model", [*export, "--to"])):
        Path("disk", name).mkdir(parents=True)
        Path(name).symlink_to(Path("disk", name))
        for _ in range(2):
            assert run([*words, name, "--overwrite"]) == 0
            assert Path(name).is_symlink()
            assert any(Path("disk", name).iterdir())
    assert len([*Path("disk").iterdir()]) == 2


def test_threads_do_not_take_a_file_away_from_each_other(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"

    def write(text: str) -> None:
        with files.new_file(path, overwrite=True) as partial:
            partial.write_text(text)

    with files.new_file(path) as partial:
        partial.write_text("mine")
        other = threading.Thread(target=write, args=("theirs",))
        other.start()
        other.join()
        assert path.read_text() == "theirs"
    assert path.read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_what_a_full_disk_stops_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    partial = tmp_path / f".a.txt.{threading.get_native_id()}.partial"
    partial.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as full, files.new_file(path) as given:
        given.write_text("text")
    assert message_of(full.value) == f"{path}: No space left on device"

    def write_folder() -> None:
        with files.new_folder(tmp_path / "b") as new:
            (new / "a.json").symlink_to("/dev/full")
            files.write_json(new / "a.json", {})

    with pytest.raises(OSError, match="No space") as full:
        write_folder()
    assert message_of(full.value) == f"{tmp_path / 'b/a.json'}: No space left on device"
    assert [*tmp_path.iterdir()] == []


def test_weights_that_a_full_disk_stops_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    def write_folder() -> None:
        with files.new_folder(tmp_path / "run") as new:
            files.write_tensors(new / "a.safetensors", {"a": torch.ones(2)})

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="No space") as full:
        write_folder()
    assert message_of(full.value) == f"{tmp_path / 'run/a.safetensors'}: No space left on device"


@pytest.mark.parametrize("new", [files.new_file, files.new_folder])
def test_where_nothing_can_be_written_the_users_name_is_named(tmp_path: Path, new: Any) -> None:
    path = tmp_path / ("a" * 250)  # the temporary name beside it is too long
    with pytest.raises(OSError, match="too long") as error, new(path) as partial:
        partial.write_text("text")
    assert message_of(error.value) == f"{path}: File name too long"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("begun", [False, True])
def test_a_full_disk_keeps_the_answers_that_are_written(
    begun: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(LATEST / "data/classify.csv", "new.csv")
    predict = ["predict", str(LATEST / "classify"), "--input", "new.csv", "--out", "a.jsonl"]
    open_shard = parts._open

    def full(path: Path) -> TextIO:
        if path.name.startswith(".000001" if begun else ".000000"):
            path.symlink_to("/dev/full")
        return open_shard(path)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "_open", full)
        assert run([*predict, "--shard-size", "10"]) == 2
    said = f"heedful: a.jsonl.parts/00000{int(begun)}.jsonl: No space left on device"
    kept = "; 10 answers are kept: the same command with --resume continues" if begun else ""
    assert capsys.readouterr().err == f"{said}{kept}\n"
    assert Path("a.jsonl.parts").exists() == begun
    assert run([*predict, "--resume"]) == 0
    assert len(Path("a.jsonl").read_text().splitlines()) == 48


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


def test_json_that_need_not_be_there(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    assert files.read_json_or_empty(path) == {}
    path.symlink_to(tmp_path / "missing.json")
    with pytest.raises(UserError, match=r"some\.json: no such file .a link to nowhere"):
        files.read_json_or_empty(path)
    (tmp_path / "missing.json").write_text('{"a": 1}')
    assert files.read_json_or_empty(path) == {"a": 1}


@pytest.mark.parametrize("is_linked", [False, True])
def test_only_regular_files_are_replaced(tmp_path: Path, is_linked: bool) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    named = link if is_linked else pipe
    with (
        pytest.raises(UserError, match="not a regular file"),
        files.new_file(named, overwrite=True) as partial,
    ):
        partial.touch()
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.parametrize(
    "read", [files.read_json, files.read_tensors, read_tokens, read_merges, read_model]
)
def test_only_regular_files_are_opened(tmp_path: Path, read: Callable[[Path], object]) -> None:
    pipe, device, circle, nowhere = (tmp_path / name for name in ("pipe", "zero", "circle", "no"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    circle.symlink_to(circle)
    nowhere.symlink_to(tmp_path / "missing")
    for path, message in (
        (pipe, "pipe: not a regular file"),
        (device, "zero: not a regular file"),
        (circle, "circle': cannot be read: "),
        (nowhere, "no: no such file .a link to nowhere"),
        (tmp_path, "no such file .it is a folder"),
        (tmp_path / "missing", "missing: no such file$"),
        (tmp_path / "a\0b", "cannot be read: embedded null byte"),
        (tmp_path / ("x" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_vocabulary_without_tokens(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"")
    with pytest.raises(UserError, match=r"vocab\.txt: no tokens in it"):
        read_tokens(tmp_path / "vocab.txt")
