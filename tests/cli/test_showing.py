"""How results look in a terminal, in a file and in a pipe."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from heedful import doctor
from heedful.cli import run
from heedful.cli.options import print_table
from heedful.metrics.tables import comparison_table

Out = pytest.CaptureFixture[str]
RED = "\x1b[31mred\x9b"


@pytest.fixture
def painted(tiny_model: Path, tmp_path: Path, capsys: Out) -> str:
    """Provide a run with a label that contains the terminal code for red."""
    data = tmp_path / "data.jsonl"
    rows = [{"text": "the apple is red", "label": RED}, {"text": "the sky", "label": "blue"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = ["train", "classify", "--model", tiny_model, "--train", data, "--steps", 1]
    assert run([*map(str, train), "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    return str(tmp_path / "run")


def test_a_terminal_obeys_no_label_and_a_pipe_gets_it_as_it_is(
    painted: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [RED, "blue"]
    assert run(["predict", painted, "the apple", "--plain"]) == 0
    assert capsys.readouterr().out[:-1] in labels
    assert run(["predict", painted, "the apple", "--all-scores"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["scores"]) == sorted(labels)
    for words in (["predict", "--all-scores"], ["predict", "--plain"], ["explain"]):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert run([words[0], painted, "the apple", *words[1:]]) == 0
        shown = capsys.readouterr()
        assert not {"\x1b", "\x9b"} & {*shown.out, *shown.err}


def test_a_narrow_terminal_loses_no_digit(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"first": 0.8123, "second": 0.7456, "difference": -0.0667, "p_value": 0.0312}
    scores = {"accuracy": {**row, "low": -0.1234, "high": 0.0021}}
    table = comparison_table({"scores": scores, "items": 45, "items_that_differ": 3, "lost": []})
    numbers = {"0.8123", "0.7456", "-0.0667", "-0.1234", "+0.0021", "0.0312"}
    for columns, lines in ((100, 3), (40, 8)):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_table(table)
        shown = capsys.readouterr().err
        assert numbers <= {*shown.split()}
        assert len(shown.splitlines()) == lines


_WORKING = """
import sys
from pathlib import Path
from heedful import cli

def work(*words, **options):
    cli.say("begun")
    cli.say("nearly done")
    Path(sys.argv[1]).touch()

cli.app = work
cli.main()
"""


def _without_reader() -> dict[str, Any]:
    reader, writer = os.pipe()
    os.close(reader)
    return {"stderr": os.fdopen(writer, "wb")}


def _on_full_disk() -> dict[str, Any]:
    return {"stderr": Path("/dev/full").open("wb")}


def _closed() -> dict[str, Any]:
    return {"preexec_fn": lambda: os.close(2)}


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("broken", [_without_reader, _on_full_disk, _closed])
def test_work_goes_on_if_its_messages_can_reach_nobody(
    tmp_path: Path, broken: Callable[[], dict[str, Any]], unbuffered: str
) -> None:
    command = [sys.executable, "-c", _WORKING, str(tmp_path / "done")]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        command, check=False, timeout=120, stdout=subprocess.PIPE, env=environment, **broken()
    )
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert (tmp_path / "done").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /dev/full")
def test_a_result_that_cannot_be_written_is_an_error(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", dict)
    with TextIOWrapper(Path("/dev/full").open("wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["doctor"]) == 2
        monkeypatch.undo()
    assert capsys.readouterr().err == "heedful: standard output: No space left on device\n"


def test_a_result_for_a_closed_standard_output_is_an_error(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", dict)
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["doctor"]) == 2
    said = "heedful: standard output is closed, so there is nowhere to write results\n"
    assert capsys.readouterr().err == said


def test_a_run_among_the_texts_to_tokenize_is_pointed_out(tiny_model: Path, capsys: Out) -> None:
    assert run(["tokenize", str(tiny_model), "a text", "--model", str(tiny_model)]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    said = "is read as a text; for the tokenizer of that folder, give it as --model\n"
    assert shown.err == f"{tiny_model} {said}"
