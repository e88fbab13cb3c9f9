"""Folders of sentence-transformers: read, written, with the same vectors."""

import json
import os
import shutil
import subprocess
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests import tiny
from tests.exact import assert_same_bits
from tests.tiny_folders import LETTERS, write_folder

import heedful
from heedful import files
from heedful.checkpoints import runs
from heedful.cli import run
from heedful.errors import UserError
from heedful.interop import export
from heedful.interop.sentence_transformers import (
    SentenceLayout,
    pool,
    read_layout,
    read_record,
    write_layout,
)
from heedful.models.loading import load_model
from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.sources import resolve

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {
        "idx": 2,
        "name": "2",
        "path": "2_Normalize",
        "type": "sentence_transformers.models.Normalize",
    },
]


def _write(folder: Path, modules: Any = MODULES, **pooling: Any) -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    values = {"word_embedding_dimension": 16, **(pooling or {"pooling_mode_mean_tokens": True})}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize(
    "layout",
    [
        SentenceLayout(pooling="mean", normalise=True, max_length=64),
        SentenceLayout(pooling="cls", normalise=False, max_length=None),
    ],
)
def test_there_and_back(tmp_path: Path, layout: SentenceLayout) -> None:
    assert read_record(tmp_path) is None
    write_layout(layout, 16, tmp_path)
    assert (tmp_path / "modules.json").is_file()
    assert read_layout(tmp_path) == layout
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert modules == MODULES[: 3 if layout.normalise else 2]
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling.pop("word_embedding_dimension") == 16
    name = "mean_tokens" if layout.pooling == "mean" else "cls_token"
    assert [key for key, value in pooling.items() if value] == [f"pooling_mode_{name}"]


DENSE = [*MODULES, {"idx": 3, "name": "3", "path": "3_Dense", "type": "x.models.Dense"}]


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (DENSE, "its modules are Transformer, Pooling, Normalize, Dense; supported are"),
        (MODULES[:1], "its modules are Transformer; supported are"),
        ([], "its modules are none; supported are"),
        ({"a": 1}, "expected a list of modules with type and path"),
        ([{"type": "Transformer"}], "expected a list of modules with type and path"),
        ([{**MODULES[0], "path": "0_Transformer"}, MODULES[1]], "with its files in this folder"),
        ([MODULES[0], {**MODULES[1], "path": "../1"}], "'../1' is not the name of a folder beside"),
    ],
)
def test_other_modules_are_named(tmp_path: Path, modules: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_layout(_write(tmp_path / "model", modules))


def test_modules_that_are_no_text_or_too_many_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "model") / "modules.json"
    path.write_bytes(b'[{"name": "\xff"}]')
    with pytest.raises(UserError, match=r"modules\.json: not UTF-8 at byte 11"):
        heedful.load(path.parent)
    os.truncate(path, 2**40)  # a sparse file
    with pytest.raises(UserError, match=r"1,099,511,627,776 bytes of JSON; at most 67,108,864"):
        heedful.load(path.parent)


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ({"pooling_mode_max_tokens": True}, "pools by pooling_mode_max_tokens; supported is one"),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "pools by pooling_mode_cls_token and pooling_mode_mean_tokens; supported is one of",
        ),
        ({"pooling_mode_cls_token": False}, "pools by nothing"),
        ({"pooling_mode": "max"}, "pools by max; supported is one"),
        ({"pooling_mode": ["mean", "max"]}, "pools by mean and max; supported is one"),
    ],
)
def test_other_poolings_are_named(tmp_path: Path, pooling: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_layout(_write(tmp_path / "model", **pooling))


def test_a_length_that_is_none(tmp_path: Path) -> None:
    folder = _write(tmp_path / "model")
    assert read_layout(folder).max_length is None
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": "long"}')
    with pytest.raises(UserError, match="max_seq_length is 'long'; expected a number"):
        read_layout(folder)


@pytest.mark.parametrize("name", ["sentence_bert_config", "config_sentence_transformers"])
def test_what_is_a_link_to_nowhere_is_not_passed_over(tmp_path: Path, name: str) -> None:
    folder = _write(tmp_path / "model")
    (folder / f"{name}.json").symlink_to(folder / "missing.json")
    with pytest.raises(UserError, match=rf"{name}\.json: no such file .a link to nowhere"):
        read_layout(folder)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "xlm-roberta"])
def test_the_length_in_a_folder_of_the_first_versions(tmp_path: Path, family: str) -> None:
    """Its file had the name of the model; the current name takes precedence."""
    folder = _write(tmp_path / "model")
    files.write_json(folder / f"sentence_{family}_config.json", {"max_seq_length": 7})
    assert read_layout(folder).max_length == 7
    files.write_json(folder / "sentence_bert_config.json", {"max_seq_length": 9})
    assert read_layout(folder).max_length == 9


@pytest.mark.parametrize("mode", ["mean", "cls", ["mean"]])
def test_a_folder_of_the_newest_version(tmp_path: Path, mode: str | list[str]) -> None:
    """It names the pooling by one key, and the maximum length is in the tokenizer's file."""
    folder = _write(tmp_path / "model", pooling_mode=mode, include_prompt=True)
    files.write_json(folder / "sentence_bert_config.json", {"transformer_task": "x"})
    files.write_json(folder / "tokenizer_config.json", {"model_max_length": 12})
    pooling = "cls" if mode == "cls" else "mean"
    assert read_layout(folder) == SentenceLayout(pooling=pooling, normalise=True, max_length=12)
    files.write_json(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    assert read_layout(folder).max_length is None
    files.write_json(folder / "sentence_bert_config.json", {"max_seq_length": 20})
    assert read_layout(folder).max_length == 20


@pytest.mark.parametrize("key", ["tokenizer_args", "processing_kwargs", "config_kwargs"])
def test_arguments_beside_the_files_are_refused(tmp_path: Path, key: str) -> None:
    folder = _write(tmp_path / "model")
    for harmless in ({}, None, {"trust_remote_code": True}):
        files.write_json(folder / "sentence_bert_config.json", {key: harmless})
        assert read_layout(folder).pooling == "mean"
    files.write_json(folder / "sentence_bert_config.json", {key: {"model_max_length": 6}})
    with pytest.raises(
        UserError, match=f"{key} is .*model_max_length.*, which heedful does not support"
    ):
        read_layout(folder)
    for odd in (5, [[]], "trust_remote_code"):
        files.write_json(folder / "sentence_bert_config.json", {key: odd})
        with pytest.raises(UserError, match=f"{key} is .*, which heedful does not support"):
            read_layout(folder)


def test_texts_that_are_changed_before_they_are_read(tmp_path: Path) -> None:
    """Otherwise their vectors would differ from those of the library."""
    for family, kept in (("roberta", True), ("bert", False)):
        folder = tmp_path / family
        write_folder(family, folder, head="body")
        _write(folder)
        files.write_json(folder / "sentence_bert_config.json", {"do_lower_case": True})
        if kept:
            with pytest.raises(UserError, match="do_lower_case is true, but the tokenizer does"):
                heedful.load(folder)
        else:
            assert read_layout(folder).pooling == "mean"
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', "utf-8")
    capitals = [letter.upper() for letter in LETTERS if letter.isalpha()]
    tokens = [*tiny.SPECIAL, *LETTERS, *capitals]  # so that a word of many letters is not known
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="do_lower_case is true, but the tokenizer does"):
        heedful.load(folder)
    (folder / "tokenizer_config.json").unlink()
    path = folder / "config_sentence_transformers.json"
    prompts = {"query": "find: ", "document": ""}
    for name in (None, "document", []):
        files.write_json(path, {"prompts": prompts, "default_prompt_name": name})
        assert read_layout(folder).pooling == "mean"
    files.write_json(path, {"prompts": prompts, "default_prompt_name": "query"})
    with pytest.raises(UserError, match="'query' puts 'find: ' before each text"):
        heedful.load(folder)
    files.write_json(path, {"prompts": prompts, "truncate_dim": 4})
    with pytest.raises(UserError, match="truncate_dim 4 cuts the vectors"):
        heedful.load(folder)


def test_a_text_without_tokens_has_zeros() -> None:
    hidden = torch.ones(2, 3, 4)
    vectors = pool(hidden, torch.tensor([[0, 0, 0], [1, 1, 0]]), "mean")
    torch.testing.assert_close(vectors, torch.tensor([[0.0], [1.0]]).expand(2, 4))


def test_gpt2_is_padded(tmp_path: Path) -> None:
    """Its files name no padding token, without which only single texts can be read."""
    write_folder("gpt2", tmp_path / "run", head="body")
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        assert files.read_json(tmp_path / "out" / name)["pad_token"] == "<|endoftext|>"
    assert load_model(tmp_path / "out").config.pad_token_id == 0


def test_a_run_is_such_a_folder(tiny_model: Path, tmp_path: Path) -> None:
    data = tmp_path / "pairs.csv"
    data.write_text("first,second\nthe sky,is blue\na red apple,was very red\n")
    out = tmp_path / "run"
    words = ["train", "embed", "--model", tiny_model, "--train", data, "--out", out, "--steps", "1"]
    words += ["--text", "first", "--text-pair", "second", "--max-length", "20", "--pooling", "cls"]
    assert run([str(word) for word in words]) == 0
    assert read_layout(out) == SentenceLayout(pooling="cls", normalise=True, max_length=20)
    ours = heedful.load(out)
    (out / "heedful.json").unlink()  # what is left is the other library's
    theirs = heedful.load(out)
    assert theirs.max_length == 20
    for text in ("the sky", "very " * 40):
        assert_same_bits(ours(text).vector, theirs(text).vector, "stored")


def test_a_finish_that_was_killed_is_finished_again(tmp_path: Path) -> None:
    for _ in range(2):  # the first time, all but the manifest may have got there
        with runs.finished(tmp_path) as folder:
            write_layout(SentenceLayout(pooling="mean", normalise=True, max_length=64), 16, folder)
        assert read_layout(tmp_path).max_length == 64
        files.check_manifest(tmp_path)


def _reference_vectors(reference: ModuleType, folder: Path, texts: list[str]) -> torch.Tensor:
    """Compute what the folder's three modules do: encode, mean over the tokens, length 1."""
    tokenizer = reference.AutoTokenizer.from_pretrained(folder)
    model = reference.AutoModel.from_pretrained(folder).eval()
    found = []
    for start in range(0, len(texts), 50):
        batch = tokenizer(
            texts[start : start + 50],
            padding=True,
            truncation=True,
            max_length=256,
            return_tensors="pt",
        )
        with torch.inference_mode():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        found.append(F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1))
    return torch.cat(found)


@pytest.mark.slow
def test_vectors_equal_the_references(data_folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs heedful[dev]")
    from heedful.reading import read_records
    from heedful.settings import ColumnSettings

    path = data_folder / "ag_news" / "test.csv.gz"
    texts = []
    for column, number in (("2", 1000), ("3", 20)):  # titles, and some longer texts
        records = read_records([path], ColumnSettings(text=column, label=None, header=False))
        texts += [record.text for record in islice(records, number)]
    expected = _reference_vectors(transformers, resolve("minilm"), texts)
    settings = PredictSettings(precision="fp32", long_text="head")
    found = torch.stack([answer.vector for answer in Predictor.load("minilm", settings)(texts)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


PACKAGE = os.environ.get("HEEDFUL_SENTENCE_TRANSFORMERS")
"""A Python that has the package, which wants other versions than the lock's."""

PROGRAM = """
import json, sys
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu", local_files_only=True)
vectors = model.encode(json.loads(sys.argv[2])).tolist()
print(json.dumps({"length": model.max_seq_length, "vectors": vectors}))
"""
TEXTS = ["the red cat sleeps", "a soup, green", "the very very white tower " * 12]


@pytest.mark.parametrize(
    ("name", "normalise"), [("embed", True), ("sentences", True), ("body", False)]
)
def test_runs_and_bare_encoders_are_exported(
    name: str, normalise: bool, golden: Path, tmp_path: Path
) -> None:
    check = export(golden / name, tmp_path / "out", "sentence-transformers")
    assert check.difference < 1e-6
    layout = read_layout(tmp_path / "out")
    assert layout == SentenceLayout(pooling="mean", normalise=normalise, max_length=32)
    if name != "body":
        ours, again = (Predictor.load(folder) for folder in (golden / name, tmp_path / "out"))
        for one, other in zip(ours(TEXTS), again(TEXTS), strict=True):
            torch.testing.assert_close(one.vector, other.vector, atol=1e-6, rtol=0)


@pytest.mark.skipif(PACKAGE is None, reason="HEEDFUL_SENTENCE_TRANSFORMERS names no Python")
@pytest.mark.parametrize("name", ["embed", "body"])
def test_the_package_gives_the_same_vectors(name: str, golden: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(golden / name, out, "sentence-transformers")
    done = subprocess.run(
        [str(PACKAGE), "-c", PROGRAM, str(out), json.dumps(TEXTS)],
        env={"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert theirs["length"] == 32
    ours = Predictor.load(out, PredictSettings(precision="fp32", long_text="head"))(TEXTS)
    vectors = torch.stack([answer.vector for answer in ours])
    torch.testing.assert_close(vectors, torch.tensor(theirs["vectors"]), atol=1e-5, rtol=0)


def test_encoders_that_its_library_no_longer_has_are_refused(golden: Path, tmp_path: Path) -> None:
    message = "an encoder with relative positions, which transformers 5, .*--format onnx"
    with pytest.raises(UserError, match=message):
        export(golden / "relative", tmp_path / "out", "sentence-transformers")
    assert [*tmp_path.iterdir()] == []


def test_words_that_its_tokenizer_would_split_are_refused(golden: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(golden / "body", tmp_path / "body"))
    path = folder / "tokenizer_config.json"
    files.write_json(path, {**files.read_json_or_empty(path), "never_split": ["a-b"]})
    with pytest.raises(UserError, match=r"keeps words whole \(never_split\), .*--format onnx"):
        export(folder, tmp_path / "out", "sentence-transformers")
    assert not (tmp_path / "out").exists()


def test_other_tasks_have_no_vectors(golden: Path, tmp_path: Path) -> None:
    message = "a classify run; --format sentence-transformers is for runs of embed"
    with pytest.raises(UserError, match=message):
        export(golden / "classify", tmp_path / "out", "sentence-transformers")


def test_an_encoder_that_was_a_language_model(tmp_path: Path) -> None:
    """Its folder may still say so; and the first positions of an MPNet are not for tokens."""
    folder = tmp_path / "model"
    write_folder("mpnet", folder)
    _write(folder)
    assert load_model(folder).head is not None
    sentences = heedful.load(folder, precision="fp32")
    assert sentences.max_length == 40
    assert sentences.kernel in ("packed", "plain")
    answer = sentences("a cat.")
    states = load_model(folder, head="body")(torch.tensor([sentences.tokenizer.encode("a cat.")]))
    expected = F.normalize(states.last_hidden_state.mean(1), dim=1)[0]
    torch.testing.assert_close(answer.vector, expected, rtol=1e-4, atol=1e-5)
    export(folder, tmp_path / "again", "sentence-transformers")
    again = heedful.load(tmp_path / "again", precision="fp32")
    torch.testing.assert_close(again("a cat.").vector, answer.vector)
