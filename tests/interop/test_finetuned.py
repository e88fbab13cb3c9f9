"""Folders that transformers trained answer as its own pipelines do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.tiny_folders import ENCODERS, write_folder

import heedful
from heedful.cli import run as cli
from heedful.errors import UserError
from heedful.files import read_tensors
from heedful.models import FAMILIES, Head
from heedful.predictor import Predictor

TAGS = ["I-PER", "O", "B-PER", "I-LOC", "B-LOC"]
"""As of IOB1, and ``O`` somewhere among them."""
SENTENCES = [
    "ann met bob in a big town.",
    "is it so, or not? it is not.",
    "the old king, carl, lives in the north",
]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return pytest.importorskip("transformers", reason="needs the extra [hf]")


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Provide a function that writes a tiny random model with a head, as the reference saves it."""

    def folder(family: str, head: Head, labels: list[str] | None = None, **options: Any) -> Path:
        out = tmp_path / f"{family}-{head}"
        if labels is not None:
            options["id2label"] = dict(enumerate(labels))
        write_folder(family, out, head=head, **{"max_position_embeddings": 128} | options)
        return out

    return folder


def load(folder: Path) -> Predictor:
    return heedful.load(folder, precision="fp32")


def pipe(reference: ModuleType, task: str, folder: Path) -> Any:
    return reference.pipeline(task, model=str(folder), device="cpu")


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "electra"])
def test_labels_are_those_of_its_pipeline(
    family: str, folder: Callable[..., Path], reference: ModuleType
) -> None:
    path = folder(family, "sequence", ["up", "down", "charm"])
    ours, theirs = load(path), pipe(reference, "text-classification", path)
    pairs = list(zip(SENTENCES, reversed(SENTENCES), strict=True))
    asked = [{"text": first, "text_pair": second} for first, second in pairs]
    for answers, others in (
        (ours(SENTENCES), theirs(SENTENCES, top_k=None)),
        (ours(pairs), theirs(asked, top_k=None)),
    ):
        for answer, other in zip(answers, others, strict=True):
            scores = {one["label"]: one["score"] for one in other}
            assert answer.scores == pytest.approx(scores, abs=1e-5)
            assert answer.label == other[0]["label"]


def test_several_labels_and_numbers(folder: Callable[..., Path], reference: ModuleType) -> None:
    several = folder("bert", "sequence", ["a", "b"], problem_type="multi_label_classification")
    (other,) = pipe(reference, "text-classification", several)([SENTENCES[0]], top_k=None)
    answer = load(several)(SENTENCES[0])
    assert answer.scores == pytest.approx({one["label"]: one["score"] for one in other}, abs=1e-5)
    assert answer.label == [one["label"] for one in other if one["score"] >= 0.5]
    number = folder("roberta", "sequence", ["LABEL_0"])  # which says nothing of numbers
    theirs = pipe(reference, "text-classification", number)
    (other,) = theirs([SENTENCES[0]], function_to_apply="none")
    assert load(number)(SENTENCES[0]).value == pytest.approx(other["score"], abs=1e-5)


def test_the_only_label_is_a_number_whatever_is_said(folder: Callable[..., Path]) -> None:
    """As a label, its probability would always be 1."""
    path = folder("bert", "sequence", ["LABEL_0"])
    right = load(path)(SENTENCES[0]).value
    config = json.loads((path / "config.json").read_text("utf-8"))
    config["problem_type"] = "single_label_classification"
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    assert load(path)(SENTENCES[0]).value == pytest.approx(right, abs=1e-6)


def test_what_writes_with_another_vocabulary_is_refused(
    folder: Callable[..., Path], tmp_path: Path
) -> None:
    reader = folder("bert", "body")
    model = heedful.BertEncoderDecoder.from_encoder_decoder_pretrained(
        reader, folder("gpt2", "causal_lm"), decoder_start_token_id=2
    )
    model.save_pretrained(tmp_path / "both")
    shutil.copy(reader / "vocab.txt", tmp_path / "both")
    with pytest.raises(
        UserError, match="both: its encoder and decoder have vocabularies of different"
    ):
        load(tmp_path / "both")


def test_a_tokenizer_without_token_types_tells_a_bert_of_none(
    folder: Callable[..., Path], reference: ModuleType
) -> None:
    path = folder("bert", "sequence", ["up", "down", "charm"])
    told = load(path)((SENTENCES[0], SENTENCES[1])).scores
    config = {"tokenizer_class": "DistilBertTokenizer"}
    (path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    theirs = pipe(reference, "text-classification", path)
    (other,) = theirs([{"text": SENTENCES[0], "text_pair": SENTENCES[1]}], top_k=None)
    scores = load(path)((SENTENCES[0], SENTENCES[1])).scores
    assert scores == pytest.approx({one["label"]: one["score"] for one in other}, abs=1e-5)
    assert scores != pytest.approx(told, abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "albert", "big_bird", "distilbert"])
@pytest.mark.parametrize(
    "config",
    [
        {"model_input_names": ["input_ids", "attention_mask"]},
        {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]},
        {"tokenizer_class": "PreTrainedTokenizerFast"},
    ],
)
def test_models_are_told_the_token_types_that_a_folder_names(
    family: str,
    config: dict[str, Any],
    folder: Callable[..., Path],
    reference: ModuleType,
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"attention_type": "original_full"} if family == "big_bird" else {}
    path = folder(family, "sequence", ["up", "down", "charm"], **options)
    reference.AutoTokenizer.from_pretrained(path).save_pretrained(path)
    said = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    (path / "tokenizer_config.json").write_text(json.dumps(said | config), "utf-8")
    pair = (SENTENCES[0], SENTENCES[1])
    theirs = reference.AutoTokenizer.from_pretrained(path)
    model = reference.AutoModelForSequenceClassification.from_pretrained(path)
    given = theirs(*pair, return_tensors="pt")
    if family == "distilbert":  # which has no types
        theirs.model_input_names = ["input_ids", "attention_mask"]
    with torch.inference_mode():
        told = {name: given[name] for name in theirs.model_input_names}
        expected = model.eval()(**told).logits.softmax(-1)[0].tolist()
    assert [*load(path)(pair).scores.values()] == pytest.approx(expected, abs=1e-5)
    ours = heedful.load_tokenizer(path)
    ours.save_pretrained(tmp_path / "again")
    for folder_read in (path, tmp_path / "again"):
        read = reference.AutoTokenizer.from_pretrained(folder_read)
        assert {*read(*pair)} == {*heedful.load_tokenizer(folder_read)(*pair)} == {*given}


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_entities_are_those_of_its_pipeline(
    family: str, folder: Callable[..., Path], reference: ModuleType
) -> None:
    path = folder(family, "token", TAGS, initializer_range=0.5)
    ours, theirs = load(path), pipe(reference, "token-classification", path)
    found = 0
    for text in [*SENTENCES, " ".join(SENTENCES).replace(" ", "  ")]:
        entities = ours(text).entities
        right = theirs(text, aggregation_strategy="first")
        assert [(one.label, one.start, one.end) for one in entities] == [
            (one["entity_group"], one["start"], one["end"]) for one in right
        ]
        scores = [one["score"] for one in right]
        assert [one.score for one in entities] == pytest.approx(scores, abs=1e-5)
        found += len(entities)
    assert found > 10
    assert {one.tag for one in ours(SENTENCES[0]).words} <= {*TAGS}


def test_tags_with_ends_may_follow_each_other_only_as_they_should(
    folder: Callable[..., Path],
) -> None:
    labels = ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC") for prefix in "BILU")]
    path = folder("bert", "token", labels, initializer_range=0.5)
    answer = load(path)(SENTENCES[2])
    assert {one.tag for one in answer.words} <= {*labels}
    assert answer.entities


@pytest.mark.parametrize("prefixes", ["BI", "I", "BILU", "BMES"])
def test_a_tagger_is_scored_and_explained_by_its_own_tags(
    prefixes: str, folder: Callable[..., Path], tmp_path: Path
) -> None:
    labels = ["O", *(f"{prefix}-PER" for prefix in prefixes)]
    path = folder("bert", "token", labels, initializer_range=0.5)
    data = tmp_path / "data.conll"
    data.write_text("ann B-PER\ncarla I-PER\nmaria I-PER\nmet O\nbob B-PER\n", "utf-8")
    assert heedful.evaluate(path, data, precision="fp32")["items"] == 1
    run = load(path)
    for word in run("ann met bob").words:
        scores = word.scores or {}
        # With tags of which nobody knows what they mean, any of them stands alone.
        told = word.tag if len(prefixes) == 4 else max(scores, key=scores.__getitem__)
        assert word.tag in scores
        explanation = heedful.explain(run, "ann met bob", target=word.text)
        assert explanation.attributions[0].target == f"tag {told!r} of {word.text!r}"


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_questions_are_answered_as_by_its_pipeline(
    family: str, folder: Callable[..., Path], reference: ModuleType
) -> None:
    path = folder(family, "span", initializer_range=0.5)
    ours, theirs = load(path), pipe(reference, "question-answering", path)
    for question, context in (("who?", SENTENCES[0]), ("where is he?", SENTENCES[2][:20])):
        asked = {"question": question, "context": context, "align_to_words": False}
        other = theirs(**asked, max_answer_len=30)
        answer = ours((question, context))
        # The end of the reference's counts the space behind a piece; its text does not.
        assert (answer.answer, answer.start) == (other["answer"].strip(), other["start"])
    # It may have learnt that there is none: whoever says by which margin is told so.
    assert ours((question, context), no_answer_threshold=-1e9).answer is None
    assert ours((question, context), no_answer_threshold=1e9).answer is not None


def test_choices_are_scored_as_by_the_reference(
    folder: Callable[..., Path], reference: ModuleType, tmp_path: Path
) -> None:
    path = folder("bert", "choice")
    question, choices = "is it so?", ["it is not.", "the old king", "a big town", "so"]
    tokenizer = reference.AutoTokenizer.from_pretrained(path)
    batch = tokenizer([question] * len(choices), choices, padding=True, return_tensors="pt")
    model = reference.AutoModelForMultipleChoice.from_pretrained(path).eval()
    with torch.inference_mode():
        right = model(**{name: x[None] for name, x in batch.items()}).logits.softmax(-1)[0]
    run = load(path)
    assert run((question, *choices)).scores == pytest.approx(right.tolist(), abs=1e-6)
    data = tmp_path / "quiz.jsonl"
    rows = [(question, choices, int(right.argmax())), ("what?", choices[:2], 0)]
    keys = ("question", "choices", "answer")
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    data.write_text("\n".join(lines), "utf-8")
    scores = heedful.evaluate(path, [data], precision="fp32")
    assert scores["items"] == 2
    assert scores["accuracy"] >= 0.5


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_masks_are_filled_as_by_its_pipeline(
    family: str, folder: Callable[..., Path], reference: ModuleType
) -> None:
    path = folder(family, "masked_lm")
    ours, theirs = load(path), pipe(reference, "fill-mask", path)
    text = f"a b {ours.tokenizer.mask_token} d e"
    (blank,) = ours(text).blanks
    special = ours.tokenizer.all_special_ids
    right = [one for one in theirs(text, top_k=9) if one["token"] not in special][:3]
    token = ours.tokenizer.vocabulary.token
    assert [one.token for one in blank.candidates[:3]] == [token(one["token"]) for one in right]
    scores = [one["score"] for one in right]
    assert [one.score for one in blank.candidates[:3]] == pytest.approx(scores, abs=1e-5)


def test_pictures_are_sorted_as_by_its_pipeline(tmp_path: Path, reference: ModuleType) -> None:
    from PIL import Image

    path = tmp_path / "vit"
    config = reference.ViTConfig(
        image_size=16,
        patch_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label={0: "cat", 1: "dog"},
    )
    reference.ViTForImageClassification(config).save_pretrained(path)
    reference.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(path)
    picture = Image.effect_noise((20, 30), 80).convert("RGB")
    picture.save(tmp_path / "it.png")
    answer = load(path)(str(tmp_path / "it.png"))
    scores = {
        one["label"]: one["score"] for one in pipe(reference, "image-classification", path)(picture)
    }
    assert answer.scores == pytest.approx(scores, abs=1e-5)
    config = json.loads((path / "config.json").read_text("utf-8"))
    (path / "config.json").write_text(json.dumps(config | {"problem_type": "regression"}), "utf-8")
    with pytest.raises(UserError, match="gives 2 numbers"):
        load(path)


@pytest.mark.parametrize("family", ENCODERS)
def test_every_family_with_every_head_opens(family: str, tmp_path: Path) -> None:
    asked: dict[Head, Any] = {
        "sequence": "a b",
        "token": "a b",
        "span": ("a?", "b c d."),
        "choice": ("a?", "b c", "d"),
        "causal_lm": "a b",
    }
    for head in FAMILIES[family].models:
        if head not in asked or (head == "causal_lm" and family == "xlnet"):
            continue
        options: dict[str, Any] = {"id2label": dict(enumerate(TAGS))} if head == "token" else {}
        if head == "causal_lm" and family != "gpt2":
            options["is_decoder"] = True
        path = tmp_path / head
        write_folder(family, path, head=head, **options)
        run = load(path)
        tasks = {"token": "tag", "span": "answer", "choice": "choose", "causal_lm": "generate"}
        assert run.task.name == tasks.get(head, "classify")
        assert run(asked[head]).tokens_total > 0


def test_a_folder_is_used_wherever_a_run_is(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder("bert", "sequence", ["up", "down"])
    files = sorted(path.iterdir())
    data = tmp_path / "data.csv"
    data.write_text("text,label\na b c,up\nd e f,down\n", "utf-8")
    assert cli(["evaluate", str(path), "--data", str(data)]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 2
    assert cli(["predict", str(path), "a b c"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] in ("up", "down")
    assert cli(["explain", str(path), "a b c"]) == 0
    assert json.loads(capsys.readouterr().out)["attributions"]
    assert cli(["report", str(path), "--data", str(data), "--out", str(tmp_path / "report")]) == 0
    assert cli(["report", str(path), "--out", str(tmp_path / "bare.html")]) == 0
    assert cli(["export", str(path), "--to", str(tmp_path / "onnx"), "--format", "onnx"]) == 0
    assert (tmp_path / "onnx" / "model.onnx").is_file()
    assert sorted(path.iterdir()) == files  # nothing is written into it
    taught = ["--teacher", str(path), "--student-layers", "1", "--labels", "up,down"]
    out = ["--steps", "1", "--out", str(tmp_path / "student")]
    assert cli(["train", "classify", "--train", str(data), *taught, *out]) == 0


def test_texts_are_as_long_as_its_tokenizer_says(folder: Callable[..., Path]) -> None:
    path = folder("bert", "sequence")
    assert load(path).max_length == 128
    (path / "tokenizer_config.json").write_text('{"model_max_length": 20}', "utf-8")
    run = load(path)
    assert run.max_length == 20
    assert run(" ".join("abcdefghijklmnopqrstuvwxyz")).windows == 2
    assert run(" ".join("abcdefghijklmnopqrstuvwxyz"), max_length=64).windows == 1


def test_a_ranker_of_sentence_transformers_gives_its_number(folder: Callable[..., Path]) -> None:
    path = folder("bert", "sequence", ["LABEL_0"])
    right = load(path)(("a", "b")).value
    config = json.loads((path / "config.json").read_text("utf-8"))
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    assert load(path)(("a", "b")).value == pytest.approx(right, abs=1e-6)
    # The newest versions list its one module, too.
    kind = "sentence_transformers.base.modules.transformer.Transformer"
    module = {"idx": 0, "name": "0", "path": "", "type": kind}
    (path / "modules.json").write_text(json.dumps([module]), "utf-8")
    assert load(path)(("a", "b")).value == pytest.approx(right, abs=1e-6)
    prompts = {"prompts": {"query": "find: "}, "default_prompt_name": "query"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompts), "utf-8")
    with pytest.raises(UserError, match="'query' puts 'find: ' before each text"):
        load(path)


def test_what_no_task_is_like_is_refused_in_a_line(
    folder: Callable[..., Path], golden: Path, tmp_path: Path
) -> None:
    nouns = folder("bert", "token", ["NOUN", "VERB"])
    with pytest.raises(UserError, match="its labels are NOUN, VERB; tag finds entities"):
        load(nouns)
    without = folder("electra", "token", ["B-PER", "I-PER"])
    with pytest.raises(UserError, match="none of its labels is O"):
        load(without)
    numbers = folder("bert", "sequence", ["a", "b"], problem_type="regression")
    with pytest.raises(UserError, match="gives 2 numbers for a text"):
        load(numbers)
    (tmp_path / "bare").mkdir()  # a translator without its tokenizers
    for name in ("config.json", "model.safetensors"):
        shutil.copy(golden / "translate" / name, tmp_path / "bare")
    with pytest.raises(UserError, match="not a heedful run"):
        load(tmp_path / "bare")
    body = folder("bert", "body")
    with pytest.raises(UserError, match="not a heedful run"):
        load(body)


def test_a_head_without_weights_is_refused(folder: Callable[..., Path]) -> None:
    out = folder("bert", "sequence")
    weights = {
        name: weight
        for name, weight in read_tensors(out / "model.safetensors").items()
        if not name.startswith("classifier")
    }
    save_file(weights, out / "model.safetensors")
    message = "weights are missing: classifier; train it for a task first"
    with pytest.raises(UserError, match=message):
        load(out)


def test_a_run_stays_what_it_says(golden: Path, tmp_path: Path) -> None:
    """A run also has files of the reference; heedful.json decides."""
    run = shutil.copytree(golden / "pair", tmp_path / "run")
    with pytest.raises(UserError, match="expected a pair"):
        load(run)("a text alone")
