"""Exports open in ``transformers``, whose pipelines answer as the run does."""

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.tiny_folders import ENCODERS, write_folder

import heedful
from heedful import cli, files
from heedful.checkpoints import runs
from heedful.errors import UserError
from heedful.interop import export
from heedful.models import BertModel, Head, Transformer, TransformerConfig
from heedful.predictor import Predictor

TEXTS = ["the blue horse sleeps", "the very red soup tastes", "it is white", "Ann is in Paris"]
RUNS = [
    *("classify", "many", "pair", "pruned", "regress", "tag", "spans", "answer", "choose", "embed"),
    *("pretrain", "masked", "writer", "replies", "translate"),
]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return pytest.importorskip("transformers", reason="needs the extra [hf]")


@pytest.fixture(scope="module")
def exported(
    reference: ModuleType, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Provide a function that exports a golden run, each once."""
    folder = tmp_path_factory.mktemp("hf")

    def exported(name: str) -> Path:
        if not (folder / name).exists():
            export(golden / name, folder / name, "hf")
        return folder / name

    return exported


@pytest.fixture(scope="module")
def pipe(reference: ModuleType, exported: Callable[[str], Path]) -> Callable[..., Any]:
    def pipe(task: str, name: str) -> Any:
        return reference.pipeline(task, model=str(exported(name)), device="cpu")

    return pipe


def _load(golden: Path, name: str) -> Predictor:
    return heedful.load(golden / name, precision="fp32")


@pytest.mark.parametrize("name", RUNS)
def test_every_run_that_it_can_hold_computes_the_same(
    name: str, golden: Path, tmp_path: Path, reference: ModuleType
) -> None:
    check = export(golden / name, tmp_path / "out", "hf")
    assert check.batches == 4
    assert check.difference < 1e-5
    assert check.consumer == f"transformers {reference.__version__}"


@pytest.mark.parametrize("name", ["classify", "pruned"])
def test_texts_are_classified_alike(name: str, golden: Path, pipe: Callable[..., Any]) -> None:
    theirs = pipe("text-classification", name)(TEXTS)
    for answer, other in zip(_load(golden, name)(TEXTS), theirs, strict=True):
        assert other == {"label": answer.label, "score": pytest.approx(answer.score, abs=1e-5)}


def test_several_labels_have_the_same_scores(golden: Path, pipe: Callable[..., Any]) -> None:
    theirs = pipe("text-classification", "many")(TEXTS, top_k=None)
    for answer, others in zip(_load(golden, "many")(TEXTS), theirs, strict=True):
        scores = {other["label"]: other["score"] for other in others}
        assert scores == pytest.approx(answer.scores, abs=1e-5)


def test_pairs_and_numbers_are_the_same(golden: Path, pipe: Callable[..., Any]) -> None:
    pair = ("the cat is red", "no, it is not here")
    theirs = pipe("text-classification", "pair")({"text": pair[0], "text_pair": pair[1]})
    assert theirs["label"] == _load(golden, "pair")(pair).label
    numbers = [other["score"] for other in pipe("text-classification", "regress")(TEXTS)]
    assert numbers == pytest.approx(
        [one.value for one in _load(golden, "regress")(TEXTS)], abs=1e-5
    )


def test_entities_are_the_same(golden: Path, pipe: Callable[..., Any]) -> None:
    text = "Dan Miller lives near New Lima"
    theirs = pipe("token-classification", "tag")(text, aggregation_strategy="first")
    ours = [(one.label, one.start, one.end) for one in _load(golden, "tag")(text).entities]
    assert ours
    assert [(one["entity_group"], one["start"], one["end"]) for one in theirs] == ours


def test_questions_are_answered_alike(golden: Path, pipe: Callable[..., Any]) -> None:
    question, context = "where is it?", "Carla eats cheese in Oslo. it is red."
    theirs = pipe("question-answering", "answer")(question=question, context=context)
    ours = _load(golden, "answer")((question, context))
    assert (theirs["answer"], theirs["start"], theirs["end"]) == (ours.best, ours.start, ours.end)


@pytest.mark.parametrize("name", ["pretrain", "masked"])
def test_masked_words_are_filled_alike(name: str, golden: Path, pipe: Callable[..., Any]) -> None:
    theirs = pipe("fill-mask", name)("the cat [MASK] red.", top_k=3)
    (blank,) = _load(golden, name)("the cat [MASK] red.").blanks
    assert [one["token_str"] for one in theirs] == [one.token for one in blank.candidates[:3]]


def test_vectors_are_the_same(golden: Path, pipe: Callable[..., Any]) -> None:
    hidden = torch.tensor(pipe("feature-extraction", "embed")(TEXTS[0]))[0]
    ours = _load(golden, "embed")(TEXTS[0]).vector
    torch.testing.assert_close(
        torch.nn.functional.normalize(hidden.mean(0), dim=0), ours, atol=1e-5, rtol=0
    )


def test_texts_are_written_alike(golden: Path, pipe: Callable[..., Any]) -> None:
    theirs = pipe("text2text-generation", "replies")(["cat, red", "horse, white"])
    ours = _load(golden, "replies")(["cat, red", "horse, white"])
    assert [one["generated_text"] for one in theirs] == [one.text for one in ours]


def test_texts_are_translated_alike(golden: Path, pipe: Callable[..., Any]) -> None:
    pytest.importorskip("sentencepiece", reason="needs the extra [marian]")
    texts = ["Das hund ist rot!", "Das katze sieht das pferd!"]
    theirs = pipe("translation", "translate")(texts)
    ours = [answer.text for answer in _load(golden, "translate")(texts)]
    assert [one["translation_text"] for one in theirs] == ours


def test_texts_are_as_long_as_the_run_reads(exported: Callable[[str], Path]) -> None:
    config = json.loads((exported("pretrain") / "tokenizer_config.json").read_text())
    assert config["model_max_length"] == 24


def test_vocabularies_of_two_sizes_are_refused(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"have 335 and 325 pieces.*or use --format onnx"):
        export(golden / "separate", tmp_path / "out", "hf")
    assert [*tmp_path.iterdir()] == []


def test_pre_norm_is_the_models_of_another_family(
    golden: Path, tmp_path: Path, reference: ModuleType
) -> None:
    pytest.importorskip("sentencepiece", reason="needs the extra [marian]")
    run = tmp_path / "run"
    shutil.copytree(golden / "translate", run)
    config = replace(TransformerConfig.read(run / "config.json"), normalize_before=True)
    torch.manual_seed(0)
    Transformer(config).eval().save_pretrained(run, overwrite=True)
    files.write_manifest(run)
    assert export(run, tmp_path / "out", "hf").difference < 1e-5
    model = reference.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert type(model).__name__ == "PegasusForConditionalGeneration"
    with pytest.raises(UserError, match="this model is pre-norm"):
        export(run, tmp_path / "marian", "marian")


@pytest.mark.parametrize("family", ENCODERS)
def test_each_family_answers_several_texts_at_once(
    family: str, tmp_path: Path, reference: ModuleType
) -> None:
    options = {"block_size": 16} if family == "big_bird" else {}
    write_folder(family, tmp_path / "run", head="sequence", num_hidden_layers=1, **options)
    texts = ["the cat.", "a dog, or not", "no"]
    ours = heedful.load(tmp_path / "run", precision="fp32")(texts)
    assert export(tmp_path / "run", tmp_path / "out", "hf").difference < 1e-5
    pipe = reference.pipeline("text-classification", model=str(tmp_path / "out"), device="cpu")
    several = 1 if family == "xlnet" else 3  # whose memories the pipeline takes for rows
    for answer, other in zip(ours, pipe(texts, batch_size=several), strict=True):
        assert other == {"label": answer.label, "score": pytest.approx(answer.score, abs=1e-5)}


def test_texts_that_are_read_by_blocks(tmp_path: Path, reference: ModuleType) -> None:
    run = tmp_path / "run"
    sizes = {"max_position_embeddings": 200, "block_size": 16, "num_random_blocks": 3}
    write_folder("big_bird", run, head="token", num_hidden_layers=1, **sizes)
    runs.write_record(run, runs.outside_record("tag", {}, 190))  # 176 are read as a whole
    files.write_manifest(run)
    assert export(run, tmp_path / "out", "hf").difference < 1e-5


def test_a_model_that_the_reference_cannot_compute_is_refused(
    tmp_path: Path, reference: ModuleType
) -> None:
    run = tmp_path / "run"
    write_folder("big_bird", run, head="token", num_hidden_layers=1, num_random_blocks=0)
    runs.write_record(run, runs.outside_record("tag", {}, 40))
    files.write_manifest(run)
    with pytest.raises(UserError, match=r"cannot compute such a model: .*use --format onnx"):
        export(run, tmp_path / "out", "hf")
    assert not (tmp_path / "out").exists()


def test_heads_that_the_reference_lacks_are_refused(tmp_path: Path, reference: ModuleType) -> None:
    cases: list[tuple[str, Head, dict[str, Any], str]] = [
        ("masked", "masked_lm", {"enhanced_mask_decoder": True}, "with an enhanced mask decoder"),
        (
            "replaced",
            "replaced",
            {},
            r"transformers [\d.]+ has no DebertaForPreTraining; use --form",
        ),
        ("tied", "masked_lm", {}, "cannot load the exported model: Error.* size mismatch"),
    ]
    for name, head, options, message in cases:
        run = tmp_path / name
        write_folder("deberta", run, head=head, **options)
        runs.write_record(run, runs.outside_record("pretrain", {"objective": "mlm"}, 40))
        files.write_manifest(run)
        with pytest.raises(UserError, match=message):
            export(run, tmp_path / "out", "hf")
    assert not (tmp_path / "out").exists()


def test_what_is_exported_is_not_replaced_by_its_export(
    golden: Path, tmp_path: Path, reference: ModuleType
) -> None:
    export(golden / "classify", tmp_path / "model", "hf")
    before = sorted(path.name for path in (tmp_path / "model").iterdir())
    with pytest.raises(UserError, match="is the model to export; choose another folder"):
        export(tmp_path / "model", tmp_path / "." / "model", "onnx", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == before


def test_weights_in_half_precision_are_written_in_fp32(golden: Path, tmp_path: Path) -> None:
    run = shutil.copytree(golden / "body", tmp_path / "run")
    weights = files.read_tensors(run / "model.safetensors")
    half = {name: tensor.bfloat16() for name, tensor in weights.items()}
    files.write_tensors(run / "model.safetensors", half)
    export(run, tmp_path / "out", "hf")
    exported = files.read_tensors(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in exported.values()} == {torch.float32}


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_networks_are_refused(name: str, golden: Path, tmp_path: Path) -> None:
    message = "transformers has no recurrent networks; use --format onnx"
    with pytest.raises(UserError, match=message):
        export(golden / name, tmp_path / "out", "hf")
    assert [*tmp_path.iterdir()] == []


def test_what_computes_something_else_is_not_kept(
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save = BertModel.save_pretrained

    def save_wrong(model: BertModel, folder: Path) -> None:
        wrong = copy.deepcopy(model)
        with torch.no_grad():
            wrong.encoder.blocks[1].output.dense.bias[0] += 0.01
        save(wrong, folder)

    monkeypatch.setattr(BertModel, "save_pretrained", save_wrong)
    words = ["export", golden / "embed", "--to", tmp_path / "out", "--format", "hf"]
    assert cli.run([str(word) for word in words]) == 2
    assert "computes different outputs: last_hidden_state differs by" in (capsys.readouterr().err)
    assert [*tmp_path.iterdir()] == []
