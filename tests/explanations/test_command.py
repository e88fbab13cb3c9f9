"""``heedful explain`` on the command line."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.tiny_folders import write_folder

from heedful.cli import run
from heedful.explanations.methods import METHODS

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
    assert "<dt>label</dt><dd><bdi>animal</bdi></dd>" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "picture.docx"], "--out picture.docx: the file extension sets the format: "),
        (["--target", "animl"], "--target 'animl' is not one of the model's labels (did you mean"),
        (["--method", "rollout", "--token", "99"], "--token 99: the input has the tokens 0 to"),
        (["--token", "-1"], "--token -1"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(GOLDEN / "classify"), TEXT, *words]) == 2
    assert message in capsys.readouterr().err


def test_rows_of_json_for_several_texts(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", str(GOLDEN / "classify"), TEXT, "the very red soup tastes"]
    assert run([*words, "--method", "leave-one-out", "gradient-x-input"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["answer"]["label"] for row in rows] == ["animal", "food"]
    for row in rows:
        assert row["attention"] == []
        methods = [one["method"] for one in row["attributions"]]
        assert methods == ["leave-one-out", "gradient-x-input"]
    assert run([*words, "--attention"]) == 0
    assert all(json.loads(row)["attention"] for row in capsys.readouterr().out.splitlines())


def test_a_terminal_gets_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["explain", str(GOLDEN / "classify"), TEXT]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0] == "integrated-gradients: label 'animal'"
    assert any(line.startswith("sleeps  +5.5") for line in lines)
    assert any(line.startswith("scores add up to the difference of the outputs:") for line in lines)
    assert run(["explain", str(GOLDEN / "classify"), TEXT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "classify"


@pytest.mark.parametrize("name", ["classify", "translate", "gru", "embed"])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures(name: str, ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    texts = {"classify": TEXT, "embed": "a cat sleeps"}
    words = ["explain", str(GOLDEN / name), texts.get(name, "Das hund ist rot!")]
    out = tmp_path / f"picture.{ending}"
    assert run([*words, "--out", str(out)]) == 0
    if ending == "png":
        assert out.read_bytes().startswith(b"\x89PNG")
        return
    drawn = out.read_text(encoding="utf-8")
    assert "which tokens decided the answer" in drawn.replace("\n", " ")
    kinds = {"classify": "rollout, all", "translate": "cross, layer", "gru": "alignment"}
    assert kinds.get(name, "encoder, layer") in drawn


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_dollar_signs_are_drawn_as_they_are(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / f"picture.{ending}"
    words = ["explain", str(GOLDEN / "answer"), "what?", "--target", "$soup_$", "--out", str(out)]
    assert run([*words, "--context", "Carla eats $soup_$ in Rome."]) == 0
    if ending == "svg":
        drawn = out.read_text(encoding="utf-8")
        assert ">answer: answer '$soup_$'</text>" in drawn  # above the figure
        assert ">answer '$soup_$'</text>" in drawn  # above the bars
        assert ">$</text>" in drawn


def test_control_characters_are_drawn_as_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_folder("roberta", tmp_path / "model", head="sequence")
    out = tmp_path / "picture.svg"
    words = ["explain", str(tmp_path / "model"), "a\x01b\nc", "--method", "leave-one-out"]
    assert run([*words, "--out", str(out)]) == 0
    drawn = "".join(ElementTree.parse(out).getroot().itertext())
    assert "␁" in drawn
    assert "␊" in drawn


def test_a_text_that_is_too_long_to_draw(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("heedful.explanations.pictures.MAX_TOKENS", 9)
    out = tmp_path / "long.png"
    assert run(["explain", str(GOLDEN / "classify"), TEXT, "--out", str(out)]) == 2
    assert "the text has 10 tokens; at most 9 can be drawn" in capsys.readouterr().err
    assert not out.exists()


def test_measuring_methods(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = ["--data", str(GOLDEN / "data" / "classi*.csv"), "--limit", "4"]
    assert run(["explain", str(GOLDEN / "classify"), "--faithfulness", *data]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["texts"] == 4
    assert set(measured["methods"]) == {*METHODS, "random"}
    out = tmp_path / "faithfulness.json"
    words = ["explain", str(GOLDEN / "writer"), "--faithfulness", "--limit", "2", "--out", str(out)]
    assert run([*words, "--data", str(GOLDEN / "data" / "generate.txt")]) == 0
    measured = json.loads(out.read_text(encoding="utf-8"))
    assert set(measured["methods"]) == {*METHODS, "random"} - {"rollout", "flow"}
    assert len(measured["notes"]) == 2
    assert "the most faithful here: --method" in capsys.readouterr().err


def test_a_text_without_a_token_is_named_or_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "some.csv"
    data.write_text("text\nthe dog sleeps\n\u200b\nthe bread tastes\n", encoding="utf-8")
    words = ["explain", str(GOLDEN / "classify")]
    assert run([*words, "--input", str(data)]) == 2
    said = capsys.readouterr().err
    assert f"{data}, line 3: the text is empty: there is nothing to explain" in said
    assert run([*words, "--faithfulness", "--data", str(data)]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["texts"] == 2
    assert measured["notes"] == ["1 text was left out: there is nothing to explain"]
    tagged = tmp_path / "some.txt"
    tagged.write_text("Ann is in Paris\n\u200b\n", encoding="utf-8")
    assert run(["explain", str(GOLDEN / "tag"), "--input", str(tagged)]) == 2
    assert f"{tagged}, line 2: " in capsys.readouterr().err


def test_measuring_heads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = ["--data", str(GOLDEN / "data" / "classify.csv"), "--limit", "6"]
    out = tmp_path / "heads.svg"
    assert run(["explain", str(GOLDEN / "classify"), "--heads", *data, "--out", str(out)]) == 0
    assert "accuracy lost without the head" in out.read_text(encoding="utf-8")
    assert "--prune 0." in capsys.readouterr().err
    assert run(["explain", str(GOLDEN / "gru"), "--heads", *data]) == 2
    assert "cannot be masked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--faithfulness"], "--data goes with --faithfulness or --heads"),
        (["--data", "a.csv"], "--data goes with --faithfulness or --heads"),
        (["--faithfulness", "--heads", "--data", "a.csv"], "give --faithfulness or --heads"),
        (["a text", "--heads", "--data", "a.csv"], "--heads is measured on --data: leave out"),
        (["--heads", "--data", "a.csv", "--limit", "1"], "--limit 1: must be at least 2"),
        (
            ["--heads", "--data", "a.csv", "--out", "a.html"],
            "--out a.html: the file extension sets",
        ),
        (["a", "b", "--out", "a.json"], "holds one explanation; there are 2 texts"),
        ([""], "the text is empty: there is nothing to explain"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(GOLDEN / "classify"), *words]) == 2
    assert message in capsys.readouterr().err
