"""No command overwrites its input."""

from pathlib import Path

import pytest
from tests.golden.copies import LATEST

from heedful import cli


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "RUN", "--input", "data.jsonl", "--format", "jsonl", "--out", "data.jsonl"],
        ["explain", "RUN", "--faithfulness", "--data", "data.jsonl", "--out", "data.jsonl"],
        ["vocabulary", "words/vocab.txt", "--size", "60", "--out", "words"],
    ],
)
def test_what_is_read_stays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").mkdir()
    for name in ("data.jsonl", "words/vocab.txt"):
        (tmp_path / name).write_text('{"text": "the red cat"}\n')
    words = [str(LATEST / "classify") if word == "RUN" else word for word in words]
    assert cli.run([*words, "--overwrite"]) == 2
    assert "is read from there; choose another name" in capsys.readouterr().err
    for name in ("data.jsonl", "words/vocab.txt"):
        assert (tmp_path / name).read_text() == '{"text": "the red cat"}\n'
