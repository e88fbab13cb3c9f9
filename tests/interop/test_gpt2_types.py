"""GPT-2 embeds token types as words, and receives them where it was trained with them."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.tiny_folders import WRITERS, write_folder

import heedful
from heedful.cli import run as cli
from heedful.interop import export
from heedful.models import GPT2Config, Head
from heedful.models.loading import family_of

LABELS = {"sequence": ["red", "green", "blue"], "token": ["O", "B-PER", "I-PER"]}


def write_gpt2(folder: Path, head: Head) -> Path:
    """Write a tiny random GPT-2 with a BERT tokenizer, as Chinese ones have."""
    write_folder("gpt2", folder, head="body")
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    tokens = WRITERS["WordPiece"](folder)
    settings = {"tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    config = GPT2Config(
        vocab_size=tokens,
        n_positions=64,
        n_embd=16,
        n_layer=2,
        n_head=2,
        initializer_range=0.5,
        pad_token_id=0,
        id2label=dict(enumerate(LABELS.get(head, ["O"]))),
    )
    torch.manual_seed(0)
    model: Any = family_of(folder)[1].model_class(head)(config)
    model.save_pretrained(folder, overwrite=True)
    return folder


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return pytest.importorskip("transformers", reason="needs the extra [hf]")


def theirs(reference: ModuleType, folder: Path, item: Any) -> dict[str, float]:
    pipe = reference.pipeline("text-classification", model=str(folder), device="cpu")
    return {row["label"]: row["score"] for row in pipe([item], top_k=None)[0]}


def test_what_the_reference_has_trained_is_told_them(tmp_path: Path, reference: ModuleType) -> None:
    folder = write_gpt2(tmp_path / "model", "sequence")
    run = heedful.load(folder, precision="fp32")
    for text in ("a b c", "a b c d e f"):
        assert run(text).scores == pytest.approx(theirs(reference, folder, text), abs=1e-5)
    pair = theirs(reference, folder, {"text": "a b", "text_pair": "c d"})
    assert run(("a b", "c d")).scores == pytest.approx(pair, abs=1e-5)


@pytest.mark.parametrize("names", [{}, {"model_input_names": ["input_ids", "attention_mask"]}])
def test_its_own_tokenizer_of_no_named_class_tells_them(
    tmp_path: Path, reference: ModuleType, names: dict[str, list[str]]
) -> None:
    folder = tmp_path / "model"
    options: dict[str, Any] = {"initializer_range": 0.5, "pad_token_id": 0}
    write_folder("gpt2", folder, head="sequence", id2label=dict(enumerate("abc")), **options)
    reference.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(settings | names), "utf-8")
    run = heedful.load(folder, precision="fp32")
    assert run("a b c").scores == pytest.approx(theirs(reference, folder, "a b c"), abs=1e-5)
    pair = theirs(reference, folder, {"text": "a b", "text_pair": "c d"})
    assert run(("a b", "c d")).scores == pytest.approx(pair, abs=1e-5)


def test_so_is_a_tagger(tmp_path: Path, reference: ModuleType) -> None:
    folder = write_gpt2(tmp_path / "model", "token")
    word = heedful.load(folder, precision="fp32")("a b c").words[-1]
    pipe = reference.pipeline("token-classification", model=str(folder), device="cpu")
    right = pipe("a b c", ignore_labels=[])[-1]
    assert right["word"] == "c"
    assert word.scores is not None
    assert word.scores[right["entity"]] == pytest.approx(right["score"], abs=1e-5)


def test_our_runs_are_told_none_of_single_texts_here_and_elsewhere(
    tmp_path: Path, reference: ModuleType, colours: Path
) -> None:
    folder = write_gpt2(tmp_path / "model", "body")
    out, exported = tmp_path / "run", tmp_path / "exported"
    options = ["--train", str(colours), "--model", str(folder), "--steps", "2", "--batch-size", "4"]
    assert cli(["train", "classify", *options, "--precision", "fp32", "--out", str(out)]) == 0
    export(out, exported, "hf")
    right = heedful.load(out, precision="fp32")("a b c").scores
    assert heedful.load(exported, precision="fp32")("a b c").scores == pytest.approx(right)
    assert theirs(reference, exported, "a b c") == pytest.approx(right, abs=1e-5)


def test_a_graph_is_given_them(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    export(write_gpt2(tmp_path / "model", "sequence"), tmp_path / "graph", "onnx")
    graph = onnxruntime.InferenceSession(str(tmp_path / "graph" / "model.onnx"))
    assert "token_type_ids" in [port.name for port in graph.get_inputs()]
