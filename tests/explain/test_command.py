"""``heedful explain`` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from heedful.cli import run

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
TEXT = "the blue horse sleeps"


def test_a_file_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "explained.json"
    words = ["explain", str(GOLDEN / "classify"), TEXT, "--out", str(out)]
    assert run(words) == 0
    explained = json.loads(out.read_text(encoding="utf-8"))
    assert explained["answer"]["label"] == "animal"
    (side,) = explained["sides"]
    assert side["texts"] == [TEXT]
    slices = {TEXT[token["start"] : token["end"]] for token in side["tokens"] if token["end"]}
    assert {"the", "blue", "sleeps"} <= slices
    for attention in explained["attention"]:
        weights = np.array(attention["weights"])
        assert weights.shape[-2:] == (len(side["tokens"]),) * 2
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
    assert run(words) == 2
    assert "exists" in capsys.readouterr().err
    assert run([*words, "--overwrite"]) == 0


def test_a_file_of_html(tmp_path: Path) -> None:
    out = tmp_path / "explained.html"
    assert run(["explain", str(GOLDEN / "classify"), TEXT, "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "What classify looked at" in page
    assert "<dt>label</dt><dd>animal</dd>" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "picture.docx"], "--out picture.docx: the ending says what is written: "),
        (["--target", "animl"], "--target 'animl' is not one of the model's labels (did you mean"),
        (["--method", "rollout", "--token", "99"], "--token 99: what is read has the tokens 0 to"),
        (["--token", "-1"], "--token -1"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(GOLDEN / "classify"), TEXT, *words]) == 2
    assert message in capsys.readouterr().err
