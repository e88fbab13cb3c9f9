"""Every task that starts from an encoder also accepts one of another family."""

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.tiny_folders import ENCODERS, write_folder

import heedful
from heedful.batches import Draw, Example
from heedful.compiled.model import compile_model
from heedful.errors import UserError
from heedful.models import FAMILIES, Head
from heedful.models.loading import load_model
from heedful.training.device import in_precision
from heedful.training.gradients import NarrowWeights


class Start(NamedTuple):
    """The model from which training starts."""

    family: str
    folder: str


QUICK: dict[str, Any] = {
    "batch_size": 4,
    "learning_rate": 5e-3,
    "head_learning_rate": 5e-3,
    "precision": "fp32",
}


@pytest.fixture(scope="module", params=ENCODERS)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Provide a folder with a tiny random model of a family, and the family's name."""
    folder = tmp_path_factory.mktemp("models") / request.param
    write_folder(request.param, folder)
    return Start(request.param, str(folder))


def test_a_classifier_learns(start: Start, tmp_path: Path) -> None:
    colours = ("blue", "green", "red")
    rows = [
        {"text": f"{how}{colour}", "label": colour}
        for colour in colours
        for how in ("", "so ", "very ", "very very ")
    ]
    heedful.train(
        "classify",
        train=rows,
        out=tmp_path / "run",
        model=start.folder,
        epochs=40,
        dropout=0.0,
        **QUICK,
    )
    run = heedful.load(tmp_path / "run")
    assert type(run.model).__name__ == FAMILIES[start.family].models["sequence"]
    assert run.max_length == run.model.default_length
    assert heedful.evaluate(tmp_path / "run", rows)["accuracy"] == 1.0
    assert [answer.label for answer in run([*colours])] == [*colours]


def losses_of(task: str, out: Path, **options: Any) -> list[float]:
    """Take two steps without dropout, and return their losses."""
    heedful.train(task, out=out, steps=2, dropout=0.0, **(QUICK | options))
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.usefixtures("bf16_anywhere")
def test_mixed_precision_learns_the_same(start: Start, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the sky is blue and the grass is green. so is the apple.\n\n" * 30)
    options = {
        "train": text,
        "documents": "gap",
        "objective": {"gpt2": "clm", "xlnet": "plm"}.get(start.family, "mlm"),
        "max_length": 32,
        "model": start.folder,
    }
    wide = losses_of("pretrain", tmp_path / "fp32", **options)
    narrow = losses_of("pretrain", tmp_path / "bf16", **options, precision="bf16")
    assert len(wide) == 2
    assert narrow == pytest.approx(wide, rel=0.02)


DATA = Path(__file__).parents[1] / "golden" / "0.1.0" / "data"
QUESTION = ("who is in Paris?", "Ann is in Paris")
LONG = "Ann — née 北京 Ωmega 🙂 is in Paris; " * 12
TRAININGS: list[tuple[str, str, dict[str, Any], Head, Any]] = [
    ("classify", "pairs.csv", {"text_pair": "reply"}, "sequence", QUESTION),
    ("regress", "regress.csv", {}, "sequence", "the bird is red"),
    ("tag", "tag.conll", {}, "token", "Ann is in Paris"),
    ("answer", "answer.jsonl", {"stride": 6}, "span", QUESTION),
    ("choose", "choose.jsonl", {}, "choice", ("it is", "red", "blue", "green")),
    ("embed", "embed.csv", {"text_pair": "other"}, "body", "Ann is in Paris"),
    ("pretrain", "pretrain.txt", {"objective": "mlm"}, "masked_lm", "the sky is {mask}."),
    ("pretrain", "pretrain.txt", {"objective": "plm"}, "permuted_lm", "the sky is {mask}."),
    ("generate", "generate.txt", {}, "causal_lm", "the sky"),
]


@pytest.mark.usefixtures("bf16_anywhere")
@pytest.mark.parametrize(("task", "file", "options", "head", "question"), TRAININGS)
def test_every_task_takes_it(
    task: str,
    file: str,
    options: dict[str, Any],
    head: Head,
    question: Any,
    start: Start,
    tmp_path: Path,
) -> None:
    classes = FAMILIES[start.family].models
    if head not in classes:
        pytest.skip(f"{start.family} has no head {head!r}")
    heedful.train(
        task,
        train=DATA / file,
        out=tmp_path,
        overwrite=True,
        model=start.folder,
        steps=2,
        **(QUICK | {"precision": "bf16"}),
        **options,
        max_length=40,
    )
    run = heedful.load(tmp_path)
    assert type(run.model).__name__ == classes[head]
    if isinstance(question, str):
        question = question.format(mask=run.tokenizer.mask_token)
    answer = run(question)
    assert answer.tokens_used == answer.tokens_total > 0
    if task in ("answer", "tag"):
        answer = run(("who?", LONG) if task == "answer" else LONG)
        assert answer.tokens_used == answer.tokens_total > 2 * run.max_length  # in windows
        spans = [
            span
            for span in (answer.n_best if task == "answer" else answer.entities)
            if span.start is not None  # that there is no answer is a candidate, too
        ]
        words = [span.answer if task == "answer" else span.text for span in spans]
        assert words == [LONG[span.start : span.end] for span in spans]


def test_numbers_are_computed_in_float32(start: Start) -> None:
    """A year in bfloat16 has steps of 8."""
    torch.manual_seed(0)
    model = load_model(start.folder, head="sequence", num_labels=1, problem_type="regression")
    if model.head.bias is not None:
        torch.nn.init.constant_(model.head.bias, 2004.3)
    ids = torch.randint(5, 20, (3, 7))
    expected = model(input_ids=ids).logits
    forms = [NarrowWeights(model, torch.bfloat16).forward]
    narrow = in_precision(copy.deepcopy(model), torch.device("cpu"), torch.bfloat16)
    for form in (*forms, narrow, compile_model(narrow).model):
        logits = form(input_ids=ids).logits  # type: ignore[operator]
        assert logits.dtype is torch.float32
        torch.testing.assert_close(logits, expected, rtol=0, atol=0.05)
    assert sum(weights.dtype is torch.float32 for weights in narrow.parameters()) <= 2


def test_a_class_token_that_comes_last_is_no_first_one(tmp_path: Path) -> None:
    write_folder("xlnet", tmp_path / "model")
    with pytest.raises(UserError, match="pooling cls takes the first token, but this model's"):
        heedful.train(
            "embed",
            train=DATA / "embed.csv",
            text_pair="other",
            pooling="cls",
            model=str(tmp_path / "model"),
            out=tmp_path / "run",
        )


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_texts_of_a_row_stand_where_they_stand_alone(family: str, tmp_path: Path) -> None:
    write_folder(family, tmp_path / "start")
    out, data = tmp_path / "run", DATA / "pretrain.txt"
    options = {"objective": "mlm", "max_length": 40, "steps": 1, **QUICK}
    heedful.train("pretrain", train=data, out=out, model=str(tmp_path / "start"), **options)
    run = heedful.load(out)
    tokenizer, body = run.tokenizer, run.model.body
    text = np.array(tokenizer.encode("Ann is in Paris"), dtype=np.int32)
    draw = Draw(seed=0, epoch=0, rows=np.arange(1))
    row = Example(ids=np.concatenate([text, text]))
    batch = run.task.batch([row], tokenizer, draw)
    alone = body.embeddings.default_positions(torch.from_numpy(text)[None].long(), 0)
    expected = torch.arange(len(text))[None] if alone is None else alone
    torch.testing.assert_close(batch.inputs["position_ids"], expected.repeat(1, 2))


def test_pairs_for_a_model_of_one_token_type(tmp_path: Path) -> None:
    """As in some RoBERTas with a BERT tokenizer, which has two types."""
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder("bert", tmp_path / "start", type_vocab_size=1)
    options = {"text": "sentence1", "text_pair": "sentence2", "label": "score", "steps": 2, **QUICK}
    rows = [
        {"sentence1": "red", "sentence2": other, "score": number}
        for number, other in enumerate(("blue", "green"))
    ]
    heedful.train(
        "regress", train=rows, out=tmp_path / "run", model=str(tmp_path / "start"), **options
    )
    (answer,) = heedful.load(tmp_path / "run", precision="fp32")([("red", "blue")])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run")
    inputs = tokenizer("red", "blue", return_tensors="pt")
    assert "token_type_ids" not in inputs
    expected = reference.eval()(**inputs).logits.item()
    assert answer.value == pytest.approx(expected, abs=1e-5)
