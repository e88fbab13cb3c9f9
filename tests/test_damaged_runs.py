"""A run with a damaged file still answers, or fails with one line that names the file."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.golden.cases import CONTEXT, LOADED
from tests.golden.copies import LATEST

import heedful
from heedful.cli import run
from heedful.commands.report import report_of_folder
from heedful.errors import UserError

ASKED: dict[str, Any] = {
    **{name: asked for name, asked, _ in LOADED if name != "marian"},
    "regress": "the bird is red",
    "embed": "the bird is red",
    "writer": "the dog likes",
    "answer": ["where is it?", CONTEXT],
}
WRONG: list[Any] = [None, [], {}, "x", -1, 10**30, 0.5, True, [None]]


def _changed(contents: dict[str, Any], keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield contents of a file with a wrong value for each key, and for some nested keys."""
    for value in WRONG:
        for key in contents:
            if contents[key] != value:
                yield {**contents, key: value}
        for outer in keys:
            for key in contents[outer]:
                yield {**contents, outer: {**contents[outer], key: value}}


def _complaints(folder: Path, name: str, asked: Any, keys: tuple[str, ...] = ()) -> list[str]:
    """Return the messages about a run for each possible damage to a file."""
    path = folder / name
    good, said = json.loads(path.read_text(encoding="utf-8")), []
    for contents in _changed(good, keys):
        path.write_text(json.dumps(contents), encoding="utf-8")
        try:
            loaded = heedful.load(folder, precision="fp32")
            report_of_folder(folder)
        except UserError as error:
            said.append(str(error))
        else:
            with suppress(UserError):  # as where it is said to read pairs
                loaded(asked if isinstance(asked, str) else tuple(asked))
    return said


@pytest.mark.parametrize("name", ASKED)
def test_a_damaged_record_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / name, tmp_path / "run"))
    said = _complaints(folder, "heedful.json", ASKED[name], ("goal",))
    assert len(said) > 20
    for line in said:
        assert line.startswith(str(folder / "heedful.json"))
        assert "\n" not in line


@pytest.mark.parametrize("name", ["classify", "replies", "translate", "gru"])
def test_a_damaged_configuration_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / name, tmp_path / "run"))
    said = _complaints(folder, "config.json", ASKED[name])
    assert len(said) > 10
    assert all(line.startswith(str(folder)) and "\n" not in line for line in said)


@pytest.mark.parametrize(
    ("name", "file", "changes", "message"),
    [
        ("classify", "heedful.json", {"labels": ["a", "b"]}, "2 labels, but its model has 3"),
        ("classify", "heedful.json", {"labels": 5}, "labels is 5: expected a list of text"),
        ("classify", "heedful.json", {"labels": None}, "labels is None: expected a list of text"),
        ("classify", "heedful.json", {"labels": ["a", "b", "a"]}, "2 of its labels are 'a'"),
        ("tag", "heedful.json", {"labels": ["O"]}, "1 label, but its model has "),
        ("regress", "heedful.json", {"highest": None}, "highest None"),
        ("answer", "heedful.json", {"max_answer_tokens": -1}, "max_answer_tokens is -1"),
        ("pretrain", "heedful.json", {"objective": "x"}, "unknown objective 'x'"),
        ("writer", "heedful.json", {"pairs": True}, "pairs is True, but its model is not of that"),
        ("translate", "heedful.json", {"longest": 0}, "longest is 0; it must be at least 1"),
        ("classify", "config.json", {"architectures": 5}, "architectures is 5; it must be a list"),
        ("classify", "config.json", {"architectures": None}, "names no model that a classify run"),
        ("classify", "config.json", {"hidden_act": []}, "unknown hidden_act '[]'"),
        (
            "replies",
            "config.json",
            {"decoder_start_token_id": "x"},
            "decoder_start_token_id is 'x'",
        ),
    ],
)
def test_what_is_wrong_is_named(
    name: str,
    file: str,
    changes: dict[str, Any],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(LATEST / name, tmp_path / "run"))
    path = folder / file
    contents = json.loads(path.read_text(encoding="utf-8"))
    where = contents["goal"] if file == "heedful.json" else contents
    assert where.keys() >= changes.keys()
    where.update(changes)
    path.write_text(json.dumps(contents), encoding="utf-8")
    asked = ASKED[name]
    words = [asked] if isinstance(asked, str) else [asked[0], "--context", asked[1]]
    assert run(["predict", str(folder), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"heedful: {path}: ")
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("length", [0, -1, 10**30])
def test_a_damaged_length_is_no_option(length: int, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))
    path = folder / "heedful.json"
    contents = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**contents, "max_length": length}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"heedful\.json: max_length {length}: this model has"):
        heedful.load(folder)
    assert heedful.load(folder, max_length=16)("the cat").label


@pytest.mark.parametrize("name", ["classify", "many", "regress", "choose", "embed", "pretrain"])
def test_what_is_no_number_is_no_answer(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(LATEST / name, tmp_path / "run"))
    weights = load_file(folder / "model.safetensors")
    for key in weights:
        if "word_embeddings" in key:
            weights[key] = weights[key] * float("nan")
    save_file(weights, folder / "model.safetensors")
    words = ["what?", "a", "b"] if name == "choose" else ["the [MASK] cat"]
    for command in ["predict", "explain", *["score"] * (name == "pretrain")]:
        assert run([command, str(folder), *words]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "the model is damaged" in captured.err
