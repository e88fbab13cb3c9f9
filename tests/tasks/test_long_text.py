"""Every task names a text that is too long and must not be truncated."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden.copies import LATEST

from heedful.cli import run

LONG = "the red cat is in Oslo. " * 40
SHORT = "the red cat"
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "classify": ({"text": SHORT}, {"text": LONG}, []),
    "pair": ({"text": SHORT, "b": SHORT}, {"text": SHORT, "b": LONG}, ["--text-pair", "b"]),
    "regress": ({"text": SHORT}, {"text": LONG}, []),
    "tag": ({"text": SHORT}, {"text": LONG}, []),
    "embed": ({"text": SHORT}, {"text": LONG}, []),
    "answer": (
        {"question": "where?", "context": SHORT},
        {"question": "where?", "context": LONG},
        [],
    ),
    "choose": (
        {"question": SHORT, "choices": ["a", "b"]},
        {"question": SHORT, "choices": ["a", LONG]},
        [],
    ),
    "replies": ({"text": SHORT}, {"text": LONG}, []),
    "masked": ({"text": "a [MASK]"}, {"text": f"a [MASK] {LONG}"}, []),
    "pretrain": ({"text": "a", "b": "b"}, {"text": "a", "b": LONG}, ["--text-pair", "b"]),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_text_that_is_refused_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long, columns = RUNS[name]
    file = tmp_path / "data.jsonl"
    words = ["predict", str(LATEST / name), "--input", str(file), *columns]
    file.write_text(json.dumps(short) + "\n")
    assert run([*words, "--long-text", "refuse"]) == 0, capsys.readouterr().err
    file.write_text("".join(json.dumps(row) + "\n" for row in (short, long)))
    assert run(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run([*words, "--long-text", "refuse"]) == 2
    error = capsys.readouterr().err.strip()
    assert f"{file}, line 2: the text has " in error
    assert error.count("\n") == 0
