"""Translator folders that are damaged or malicious: one line, at no cost of time or memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedful import RnnConfig, RnnSearch, Transformer, TransformerConfig
from heedful.checkpoints.runs import RunRecord, write_record
from heedful.cli import run
from heedful.files import write_manifest
from heedful.tokens import TextTokenizer, TranslationTokenizer
from heedful.tokens.text import BYTES

SIDE = TextTokenizer(["</s>", "<unk>", *BYTES, "\u2581A", "\u2581", "<pad>"])
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
POSITIONS = "model.encoder.embed_positions.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide the model folder of a tiny untrained Transformer."""
    config = TransformerConfig(vocab_size=SIDE.vocab_size, d_model=8, **SMALL)
    Transformer(config).save_pretrained(tmp_path / "model")
    TranslationTokenizer(SIDE, SIDE).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def error_of(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    assert run(["predict", str(folder), "A", "--precision", "fp32", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(path: Path, changed: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    weights = load_file(path)
    changed(weights)
    save_file(weights, path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_layers": 10**9}, "encoder_layers is 1000000000; it must be an integer of at le"),
        ({"d_model": 2**28}, "d_model is 268435456; it must be an integer of at least 1 and below"),
        ({"d_model": 2**27}, "model.shared.weight has shape (261, 8); the model expects"),
        ({"vocab_size": 10**18}, "vocab_size is 1000000000000000000; it must be an integer of at"),
    ],
)
def test_sizes_of_no_model(
    folder: Path, capsys: pytest.CaptureFixture[str], values: dict[str, int], message: str
) -> None:
    change(folder / "config.json", **values)
    assert message in error_of(capsys, folder)


def test_a_number_of_thousands_of_digits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.json").write_text('{"vocab_size": ' + "9" * 5000 + "}")
    assert "config.json: not JSON: Exceeds the limit (4300 digits)" in error_of(capsys, folder)


@pytest.mark.parametrize("shape", [(8,), (2, 2, 2), (4, 3), ()])
def test_positions_of_another_shape(
    folder: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, ...]
) -> None:
    weights = folder / "model.safetensors"
    change_weights(weights, lambda found: found.update({POSITIONS: torch.zeros(shape)}))
    assert f"{POSITIONS} holds no sinusoids" in error_of(capsys, folder)


@pytest.mark.parametrize("options", [[], ["--sample"], ["--prefix", "A"]])
def test_weights_that_are_no_numbers(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    weights = folder / "model.safetensors"
    change_weights(weights, lambda found: found["final_logits_bias"].fill_(torch.nan))
    error = error_of(capsys, folder, *options)
    assert "the score of a next token is not a number; the model is damaged" in error


def test_sizes_of_no_recurrent_model() -> None:
    with pytest.raises(ValueError, match="hidden_width is 1000000000; it must be"):
        RnnSearch(RnnConfig(vocab_size=9, hidden_width=10**9))


def test_a_folder_without_a_tokenizer(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "vocab.json").unlink()
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("A\n")
    words = ["--train", tmp_path / "a.de", tmp_path / "a.en", "--out", tmp_path / "run"]
    assert run([str(word) for word in ["train", "translate", "--model", folder, *words]]) == 2
    message = f"heedful: {folder}: holds no translator (there is no vocab.json)\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("heedful.json", "goal", {"longest": "9"}, "its goal does not fit the task"),
        ("heedful.json", "goal", {"longest": 2.5}, "its goal does not fit the task"),
        (
            "manifest.json",
            "files",
            {"vocab.json": 3},
            "expected the bytes and the sha256 of 'vocab",
        ),
        (
            "manifest.json",
            "files",
            {"vocab.json": {"bytes": 3}},
            "expected the bytes and the sha256",
        ),
    ],
)
def test_what_a_run_says_of_itself(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    key: str,
    value: dict[str, Any],
    message: str,
) -> None:
    record = RunRecord(
        task="translate", goal={"longest": 9}, max_length=9, settings={}, data=[], versions={}
    )
    write_record(folder, record)
    write_manifest(folder)
    assert run(["predict", str(folder), "A", "--plain"]) == 0
    capsys.readouterr()
    change(folder / name, **{key: value})
    assert message in error_of(capsys, folder)
