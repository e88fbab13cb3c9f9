"""Exports compute the same in ONNX Runtime, for any batch size and length."""

import errno
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests import tiny
from tests.interop.readme import printed
from tests.tiny_folders import write_folder

import heedful
from heedful import cli, files
from heedful.checkpoints import runs
from heedful.commands.export import scores_of
from heedful.compiled import int8
from heedful.errors import UserError
from heedful.interop import export, open_exported
from heedful.interop.onnx import writing
from heedful.models import Head, RobertaConfig, RobertaForSequenceClassification
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings, ExportSettings, PredictSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of torch's exporter, about itself
]

ENCODERS = {
    "answer": "start_logits (2, 20)\nend_logits (2, 20)\n",
    "choose": "logits (1, 2)\n",
    "embed": "last_hidden_state (2, 12, 16)\nsentence_embedding (2, 16)\n",
    "masked": "logits (2, 12, 134)\n",
    "pretrain": "prediction_logits (2, 12, 134)\nseq_relationship_logits (2, 2)\n",
}
"""Golden runs, and what the program of their README prints."""
WRITERS = ["writer", "replies", "translate", "lstm"]


@pytest.fixture(scope="module")
def onnxruntime() -> ModuleType:
    pytest.importorskip("onnxscript", reason="needs the extra [onnx]")
    module: ModuleType = pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    return module


@pytest.fixture(scope="module")
def exported(
    onnxruntime: ModuleType, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Provide a function that exports a golden run, each once."""
    folder = tmp_path_factory.mktemp("onnx")

    def exported(name: str) -> Path:
        if not (folder / name).exists():
            check = export(golden / name, folder / name, "onnx")
            assert check.batches == 4
            assert check.difference < 1e-5
        return folder / name

    return exported


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_compute_the_same(
    name: str, exported: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(exported(name), monkeypatch) == ENCODERS[name]


@pytest.mark.parametrize("name", WRITERS)
def test_writers_go_on_from_their_caches(
    name: str, exported: Callable[[str], Path], golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = heedful.load(golden / name, precision="fp32")("a text", beam=1).text
    text = printed(exported(name), monkeypatch).strip()
    assert text.removeprefix("a text ") == ours.strip()


DATA: dict[str, tuple[list[str], ColumnSettings]] = {
    "answer": (["answer.jsonl"], ColumnSettings()),
    "choose": (["choose.jsonl"], ColumnSettings()),
    "embed": (["embed.csv"], ColumnSettings(text_pair="other")),
    "masked": (["pretrain.txt"], ColumnSettings()),
    "pretrain": (["pretrain.txt"], ColumnSettings()),
    "writer": (["generate.txt"], ColumnSettings()),
    "replies": (["generate.csv"], ColumnSettings()),
    "translate": (["translate.de", "translate.en"], ColumnSettings()),
    "lstm": (["translate.de", "translate.en"], ColumnSettings()),
}


@pytest.mark.parametrize("name", DATA)
def test_the_same_evaluation_scores_both(
    name: str, exported: Callable[[str], Path], golden: Path
) -> None:
    names, columns = DATA[name]
    data = [golden / "data" / file for file in names]
    predictor = Predictor.load(golden / name, PredictSettings(precision="fp32"))
    ours = scores_of(predictor, data, columns, print)
    predictor.model = open_exported(golden / name, exported(name), "onnx")
    assert ours
    assert scores_of(predictor, data, columns, print) == pytest.approx(ours, abs=1e-4, rel=1e-4)


@pytest.mark.parametrize("types", [1, 2])
def test_a_tiny_roberta_is_one_graph(
    types: int, onnxruntime: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    folder = tmp_path / "run"
    tokenizer = tiny.byte_level_tokenizer()
    model = RobertaForSequenceClassification(
        RobertaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=34,
            type_vocab_size=types,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record = runs.outside_record("classify", {"labels": ["a", "b"], "multi_label": False}, 32)
    runs.write_record(folder, record)
    files.write_manifest(folder)
    assert export(folder, tmp_path / "hf", "hf").difference < 1e-5
    assert export(folder, tmp_path / "onnx", "onnx").difference < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    inputs = ["input_ids", "attention_mask", "token_type_ids"][: types + 1]
    assert [one.name for one in session.get_inputs()] == inputs
    assert printed(tmp_path / "onnx", monkeypatch) == "logits (2, 2)\n"


def test_a_tiny_albert_keeps_shared_weights_once(
    onnxruntime: ModuleType, golden: Path, tmp_path: Path
) -> None:
    write_folder("albert", tmp_path / "model", num_hidden_layers=3)
    heedful.train(
        "pretrain",
        train=golden / "data" / "pretrain.txt",
        out=tmp_path / "run",
        model=str(tmp_path / "model"),
        objective="sop",
        max_length=24,
        steps=1,
    )
    assert export(tmp_path / "run", tmp_path / "hf", "hf").difference < 1e-5
    assert export(tmp_path / "run", tmp_path / "onnx", "onnx").difference < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    outputs = [one.name for one in session.get_outputs()]
    assert outputs == ["prediction_logits", "sop_logits"]
    import onnx

    graph = onnx.load(tmp_path / "onnx" / "model.onnx").graph
    shapes = [tuple(tensor.dims) for tensor in graph.initializer]
    wide = [shape for shape in shapes if shape in ((16, 32), (32, 16))]
    assert len(wide) == 2  # of the feed-forward part, for all three layers
    run = heedful.load(tmp_path / "run", precision="fp32")
    pair = ("the sky is blue.", "the cat is red.")
    before = run(pair).next_sentence
    run.model = open_exported(tmp_path / "run", tmp_path / "onnx", "onnx")
    assert run(pair).next_sentence == pytest.approx(before, abs=1e-4)


def test_texts_in_one_row_are_scored_where_positions_start_above_0(
    onnxruntime: ModuleType, golden: Path, tmp_path: Path
) -> None:
    write_folder("roberta", tmp_path / "model", num_hidden_layers=1)
    data, run, out = golden / "data" / "pretrain.txt", tmp_path / "run", tmp_path / "onnx"
    heedful.train(
        "pretrain",
        train=data,
        out=run,
        model=str(tmp_path / "model"),
        objective="mlm",
        max_length=24,
        steps=1,
    )
    export(run, out, "onnx")
    predictor = Predictor.load(run, PredictSettings(precision="fp32"))
    ours = scores_of(predictor, [data], ColumnSettings(), print)
    predictor.model = open_exported(run, out, "onnx")
    theirs = scores_of(predictor, [data], ColumnSettings(), print)
    assert theirs == pytest.approx(ours, abs=1e-4, rel=1e-4)


HEADS: dict[Head, tuple[str, dict[str, Any]]] = {
    "span": ("answer", {}),
    "choice": ("choose", {}),
    "causal_lm": ("generate", {}),
}
"""Heads of RoBERTa, and tasks that have them; others are exported for the page of families."""


@pytest.mark.parametrize("head", HEADS)
def test_each_head_of_a_roberta(onnxruntime: ModuleType, tmp_path: Path, head: Head) -> None:
    folder, (task, goal) = tmp_path / "run", HEADS[head]
    decoder = head == "causal_lm"
    write_folder("roberta", folder, head=head, num_hidden_layers=1, is_decoder=decoder)
    runs.write_record(folder, runs.outside_record(task, goal, 40))
    files.write_manifest(folder)
    assert export(folder, tmp_path / "onnx", "onnx").difference < 1e-4


def test_graphs_of_8_bits_print_what_they_change(
    onnxruntime: ModuleType, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = golden / "data" / "classify.csv"
    words = ["export", golden / "classify", "--to", tmp_path / "out", "--format", "onnx"]
    words += ["--int8", "--data", data]
    assert cli.run([str(word) for word in words]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["accuracy"]["model"] == 1.0
    assert scores["accuracy"]["export"] > 0.9
    for score in scores.values():
        assert score["change"] == pytest.approx(score["export"] - score["model"])
    assert scores["ece"]["change"] != 0.0  # it is not the same model
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "int8 weights" in readme
    # In a block of its own, which no label can end.
    labels = readme.partition("```json\n")[2].partition("\n```\n")[0]
    assert json.loads(labels) == runs.read_record(golden / "classify").goal["labels"]
    assert b"MatMulInteger" in (tmp_path / "out" / "model.onnx").read_bytes()
    assert session.get_outputs()[0].name == "logits"


# Elsewhere the consumer adds up products of 8 bits in 16, which are too few: the sums saturate.
@pytest.mark.skipif(not int8.is_supported(torch.device("cpu"))[0], reason="the CPU has no VNNI")
@pytest.mark.parametrize("run", ["classify", "gru"])
def test_an_int8_graph_computes_nearly_the_same(golden: Path, tmp_path: Path, run: str) -> None:
    check = export(golden / run, tmp_path / "out", "onnx", settings=ExportSettings(int8=True))
    assert check.int8 is not None
    assert check.difference < check.int8 < 0.1
    assert f"in int8 by at most {check.int8:.1e}" in str(check)


def test_a_broken_int8_graph_is_not_left_behind(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(folder: Path) -> None:
        (folder / "model.onnx").write_bytes((tmp_path / "other" / "model.onnx").read_bytes())

    export(golden / "regress", tmp_path / "other", "onnx")
    monkeypatch.setattr(writing, "_quantise", spoil)
    with pytest.raises(UserError, match="computes different outputs"):
        export(golden / "classify", tmp_path / "no", "onnx", settings=ExportSettings(int8=True))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("run", ["lstm", "translate"])
def test_the_consumer_has_nothing_to_warn_of(
    onnxruntime: ModuleType,
    exported: Callable[[str], Path],
    capfd: pytest.CaptureFixture[str],
    run: str,
) -> None:
    for path in exported(run).glob("*.onnx"):
        onnxruntime.InferenceSession(path)
    assert capfd.readouterr().err == ""


def test_a_graph_holds_no_path_of_the_machine_that_wrote_it(
    exported: Callable[[str], Path],
) -> None:
    for path in exported("translate").glob("*.onnx"):
        content = path.read_bytes()
        assert b".py" not in content
        assert str(Path(heedful.__file__).parent).encode() not in content


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hf", "--int8"], "--int8 has no effect on --format hf; it is for --format onnx"),
        (["marian", "--int8"], "--int8 has no effect on --format marian"),
        (["hf", "--data", "x.csv"], "--data has no effect on --format hf, whose weights are"),
        (["onnx", "--text", "a"], "column options are for the files of --data"),
        (["onnx", "--data-format", "csv"], "column options are for the files of --data"),
        (["onnx", "--data", "x.csv"], "x.csv: no such file"),
        (["onnx", "--data", "x", "--data-format", "tsv"], "x: no such file"),
        (["onx"], "unknown format 'onx' (did you mean 'onnx'?)"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str],
    message: str,
    golden: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, out = str(golden / "classify"), str(tmp_path / "out")
    assert cli.run(["export", run, "--to", out, "--format", *words]) == 2
    assert message in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left on device"),
        (UserError("wrong"), 2, "wrong"),
    ],
)
def test_what_is_interrupted_leaves_nothing(
    wrong: BaseException,
    code: int,
    message: str,
    golden: Path,
    onnxruntime: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def write_half(graph: Any, folder: Path) -> None:
        (folder / graph.file).write_bytes(b"half")
        raise wrong

    monkeypatch.setattr(writing, "write_graph", write_half)
    words = ["export", str(golden / "tag"), "--to", str(tmp_path / "out"), "--format", "onnx"]
    assert cli.run(words) == code
    assert message in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_torch_that_cannot_export_is_named(
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.7.1"))
    words = ["export", str(golden / "tag"), "--to", str(tmp_path / "out"), "--format", "onnx"]
    assert cli.run(words) == 2
    assert "torch 2.7.1 is too old to export ONNX graphs" in capsys.readouterr().err


def test_a_graph_that_computes_something_else_is_not_kept(
    exported: Callable[[str], Path],
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = exported("masked")  # of as many outputs, but of another model
    monkeypatch.setattr(
        writing, "write_graph", lambda graph, out: shutil.copy(folder / graph.file, out)
    )
    run = shutil.copytree(golden / "masked", tmp_path / "run")
    weights = files.read_tensors(run / "model.safetensors")
    weights["cls.predictions.bias"] += torch.linspace(0, 1, 134)
    files.write_tensors(run / "model.safetensors", weights)
    files.write_manifest(run)
    message = "ONNX Runtime .* computes different outputs: logits differs by"
    with pytest.raises(UserError, match=message):
        export(run, tmp_path / "out", "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_missing_package_is_named(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    packages = "onnx, onnx-ir, onnxruntime and onnxscript"
    message = rf"ONNX files need {packages}: pip install 'heedful\[onnx\]'"
    with pytest.raises(UserError, match=message):
        export(golden / "tag", tmp_path / "out", "onnx")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"need transformers: pip install 'heedful\[hf\]'"):
        export(golden / "tag", tmp_path / "out", "hf")
    assert [*tmp_path.iterdir()] == []
