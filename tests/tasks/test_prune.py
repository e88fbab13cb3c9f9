"""Pruning by importance from the command line: saved, loaded, resumed and refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import heedful
from heedful.cli import run
from heedful.models.pruning import choose_heads
from heedful.training import prune

Out = pytest.CaptureFixture[str]
GOLDEN = Path(__file__).parents[1] / "golden/0.1.0"
RATES = ["--learning-rate", "1e-2", "--head-learning-rate", "1e-2", "--dropout", "0"]


def train(model: Path, data: Path, out: Path, *more: str) -> int:
    words = ["train", "classify", "--model", model, "--train", data, "--out", out, *RATES]
    words += ["--batch-size", "8", "--precision", "fp32", *more]
    return run([str(word) for word in words])


@pytest.fixture
def trained(tiny_model: Path, colours: Path, tmp_path: Path) -> Path:
    assert train(tiny_model, colours, tmp_path / "whole", "--epochs", "20") == 0
    return tmp_path / "whole"


def test_a_pruned_run_is_smaller_and_still_right(
    trained: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "pruned"
    assert train(trained, colours, out, "--prune", "0.5", "--epochs", "5") == 0
    assert "pruned the 2 of 4 heads that matter least to the loss" in capsys.readouterr().err
    gone = json.loads((out / "config.json").read_text())["pruned_heads"]
    assert sum(map(len, gone.values())) == 2
    assert json.loads((out / "pruned_heads.json").read_text()) == gone
    size = (out / "model.safetensors").stat().st_size
    assert size < (trained / "model.safetensors").stat().st_size

    assert run(["evaluate", str(out), "--data", str(colours)]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9
    model = heedful.BertForSequenceClassification.from_pretrained(out)
    widths = [block.attention.self.query.out_features for block in model.bert.encoder.layer]
    assert sum(widths) == 16  # two heads of eight


def test_a_resumed_run_loses_the_same_heads(
    trained: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    options = ["--prune", "0.25", "--steps", "6", "--checkpoint-every", "2"]
    assert train(trained, colours, tmp_path / "once", *options) == 0
    stopped = [*options, "--max-minutes", "1e-9"]
    assert train(trained, colours, tmp_path / "twice", *stopped) == 0
    manifest = tmp_path / "twice" / "manifest.json"
    manifest.unlink()  # as if it had been killed before its end was written
    choice = tmp_path / "twice" / "pruned_heads.json"
    assert choice.read_text() == (tmp_path / "once" / "pruned_heads.json").read_text()
    assert train(trained, colours, tmp_path / "twice", *options, "--resume") == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "twice")]
    assert weights[0] == weights[1]


def test_heads_matter_where_pairs_are_learnt_from_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed = []

    def choose(importance: dict[str, Tensor], count: int, config: Any) -> Any:
        weighed.append(importance["head_mask"])
        return choose_heads(importance, count, config)

    monkeypatch.setattr(prune, "choose_heads", choose)
    words = ["train", "embed", "--model", GOLDEN / "embed", "--train", GOLDEN / "data/embed.csv"]
    words += ["--text-pair", "other", "--prune", "0.25", "--steps", "1", "--batch-size", "8"]
    assert run([str(word) for word in [*words, "--out", tmp_path / "pruned"]]) == 0
    (importance,) = weighed
    assert (importance > 0).all()


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ("1", "--prune 1.0: must be from 0 to below 1"),
        ("-0.1", "--prune -0.1: must be from 0 to below 1"),
        ("0.9", "cannot prune 4 heads; the model has 2 to spare"),
    ],
)
def test_too_many_heads_are_refused(
    trained: Path, colours: Path, tmp_path: Path, capsys: Out, share: str, message: str
) -> None:
    capsys.readouterr()
    assert train(trained, colours, tmp_path / "pruned", "--prune", share) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "pruned").exists()  # so that another share trains there


def test_a_model_that_has_not_learnt_the_task_is_refused(
    tiny_model: Path, trained: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    other = tmp_path / "other.csv"
    other.write_text(colours.read_text().replace(",red", ",scarlet"))
    for model, data in ((tiny_model, colours), (GOLDEN / "masked", colours), (trained, other)):
        capsys.readouterr()
        assert train(model, data, tmp_path / "pruned", "--prune", "0.25") == 2
        assert "but this model has a new head: train it without" in capsys.readouterr().err
        assert not (tmp_path / "pruned").exists()
    out = tmp_path / "pruned"
    assert train(trained, colours, out, "--prune", "0.25", "--steps", "1") == 0
    capsys.readouterr()
    assert train(tiny_model, colours, out, "--prune", "0.25", "--overwrite") == 2
    assert "but this model has a new head: train it without" in capsys.readouterr().err


def test_what_writes_on_is_pruned_and_a_pair_of_models_is_refused(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    text = tmp_path / "book.txt"
    text.write_text("the sky is blue\nthe grass is green\n")
    words = ["train", "generate", "--prune", "0.25", "--steps", "1", "--model"]
    words.append(str(GOLDEN / "masked"))
    assert run([*words, "--train", str(text), "--out", str(tmp_path / "one")]) == 0
    assert "pruned the 1 of 4 heads" in capsys.readouterr().err
    assert run([*words, "--train", str(colours), "--out", str(tmp_path / "two")]) == 2
    assert "--prune is for models with a single encoder" in capsys.readouterr().err
