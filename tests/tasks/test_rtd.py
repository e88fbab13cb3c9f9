"""Replaced tokens: the loss and its samples, runs that learn them, and their answers."""

import asyncio
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.alike import same
from tests.exact import assert_same_bits
from tests.models.test_pair import pair_of

import heedful
from heedful.batches import Batch, Draw, Example
from heedful.batches.masking import mask_rule
from heedful.cli import run
from heedful.errors import UserError
from heedful.files import read_tensors
from heedful.models.pair import GeneratorDiscriminatorPair
from heedful.tasks.objectives.rtd import ReplacedTokens
from heedful.tokens import BertTokenizer
from heedful.tokens.vocabulary import Vocabulary
from heedful.training.examples import Examples

Out = pytest.CaptureFixture[str]
THINGS = {"apple": "red", "grass": "green", "sky": "blue", "coal": "black", "snow": "white"}
WORDS = ["the", "is", ".", *THINGS, *THINGS.values()]
TOKENIZER = BertTokenizer(Vocabulary([*tiny.SPECIAL, *WORDS]))


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide documents of sentences in which the thing determines the colour."""
    draw = random.Random(0)
    documents = []
    for _ in range(100):
        things = draw.choices(list(THINGS), k=4)
        documents.append("\n".join(f"the {thing} is {THINGS[thing]} ." for thing in things))
    path = tmp_path_factory.mktemp("books") / "books.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of a tiny untrained pair."""
    folder = tmp_path_factory.mktemp("models") / "pair"
    pair = pair_of(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        max_position_embeddings=32,
        position_embedding_type="relative_key",
        initializer_range=0.1,
    )
    pair.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def train(books: Path, start: Path, out: Path, **options: Any) -> None:
    values: dict[str, Any] = {
        "learning_rate": 3e-3,
        "batch_size": 16,
        "precision": "fp32",
        "sentences": "line",
    }
    heedful.train(
        "pretrain", train=books, model=str(start), out=out, objective="rtd", **values | options
    )


@pytest.fixture(scope="module")
def learnt(books: Path, start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "rtd"
    train(books, start, out, steps=150, dropout=0.0)
    return out


# The loss and its batches.


def texts(count: int = 3) -> list[Example]:
    draw = np.random.default_rng(0)
    rows = [[2, *draw.integers(5, 15, 9), 3, 2, *draw.integers(5, 15, 6), 3] for _ in range(count)]
    rows.append([2, *draw.integers(5, 15, 8), 3])
    return [Example(ids=np.array(row, dtype=np.int32)) for row in rows]


def batch_of(
    examples: list[Example], rows: list[int] | None = None, *, seed: int = 0, epoch: int = 0
) -> Batch:
    rule = mask_rule(TOKENIZER, share=0.3, max_predictions=None)
    numbers = np.array(range(len(examples)) if rows is None else rows)
    draw = Draw(seed=seed, epoch=epoch, rows=numbers)
    return ReplacedTokens().training_batch(examples, TOKENIZER, rule, draw)


def test_every_token_that_is_hidden_is_masked() -> None:
    batch = batch_of(texts())
    ids, positions = batch.inputs["input_ids"], batch.inputs["positions"]
    assert ids.flatten()[positions].eq(TOKENIZER.mask_token_id).all()
    assert int(ids.eq(TOKENIZER.mask_token_id).sum()) == len(positions)
    ids = ids.flatten().index_copy(0, positions, batch.targets["tokens"]).view_as(ids)
    for row, example in zip(ids.tolist(), texts(), strict=True):
        assert row[: len(example.ids)] == example.ids.tolist()
    assert batch.targets["real"].sum(1).tolist() == [len(example.ids) for example in texts()]


def test_draws_are_those_of_a_sequence_whatever_batch_it_stands_in() -> None:
    examples = texts()
    whole, again = batch_of(examples), batch_of(examples)
    assert_same_bits(whole.inputs["uniforms"], again.inputs["uniforms"], "same code")
    some = batch_of([examples[3], examples[1]], [3, 1])
    length = whole.inputs["input_ids"].shape[1]
    by_row = [whole.inputs["uniforms"][whole.inputs["positions"] // length == n] for n in range(4)]
    assert_same_bits(some.inputs["uniforms"], torch.cat([by_row[3], by_row[1]]), "moved")
    uniforms = whole.inputs["uniforms"]
    assert uniforms.ge(0).all()
    assert uniforms.lt(1).all()
    assert len(uniforms.unique()) == len(uniforms)
    for other in (batch_of(examples, epoch=1), batch_of(examples, seed=1)):
        assert other.inputs["uniforms"].tolist() != uniforms.tolist()


def test_the_loss_and_its_gradient_by_hand() -> None:
    pair = pair_of(vocab_size=len(TOKENIZER), max_position_embeddings=32).double()
    with torch.no_grad():
        pair.generator.head.bias[len(tiny.SPECIAL) :] += 3.0  # so that some are drawn right
    objective, batch = ReplacedTokens(weight=50.0), batch_of(texts(12))
    inputs, tokens, real = batch.inputs, batch.targets["tokens"], batch.targets["real"]
    sums, counts = objective.loss(pair, batch), objective.loss_divisors(batch)
    assert counts.tolist() == [len(tokens), int(real.sum())]

    shared = {key: inputs[key] for key in ("attention_mask", "position_ids")}
    logits = pair.generator(inputs["input_ids"], **shared).logits.flatten(0, 1)
    chances = logits[inputs["positions"]].softmax(-1)  # (N, V)
    samples = []
    for row, number in zip(chances.tolist(), inputs["uniforms"].tolist(), strict=True):
        passed = itertools.accumulate(row)
        samples.append(next(token for token, total in enumerate(passed) if total > number))
    corrupted = inputs["input_ids"].flatten().clone()
    corrupted[inputs["positions"]] = torch.tensor(samples)
    labels = torch.zeros_like(corrupted, dtype=torch.float64)
    labels[inputs["positions"]] = (torch.tensor(samples) != tokens).double()
    assert 0 < labels.sum() < len(tokens)
    scores = pair.discriminator(corrupted.view_as(inputs["input_ids"]), **shared).logits
    signed = torch.where(labels.view_as(scores) == 1, -scores, scores)
    filled = -chances.gather(1, tokens[:, None]).log().sum()
    detected = torch.nn.functional.softplus(signed)[real].sum()
    torch.testing.assert_close(sums, torch.stack([filled, 50 * detected]), rtol=1e-12, atol=0)

    losses = [filled / len(tokens), 50 * detected / real.sum()]
    parameters = dict(pair.named_parameters())
    found = torch.autograd.grad((sums / counts).sum(), list(parameters.values()), retain_graph=True)
    apart = [
        torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, allow_unused=True)
        for loss in losses
    ]
    for name, gradient, first, second in zip(parameters, found, *apart, strict=True):
        of_both = any(table in name for table in pair.tied)
        assert (first is not None) == (name.startswith("generator.") or of_both), name
        assert (second is not None) == name.startswith("discriminator."), name
        right = sum(part for part in (first, second) if part is not None)
        torch.testing.assert_close(gradient, right, rtol=1e-9, atol=1e-12)


# Runs.


def test_a_run_learns_what_was_replaced(learnt: Path, books: Path, capsys: Out) -> None:
    scores = heedful.evaluate(learnt, books)
    assert scores["rtd_accuracy"] > scores["always_original"] + 0.005
    assert scores["rtd_f1"] > 0.2
    assert scores["rtd_precision"] > 0.6
    assert 0 < scores["rtd_recall"] < 1
    assert scores["masked_accuracy"] > 0.4
    assert 0.8 < scores["always_original"] < 1
    again = heedful.evaluate(learnt, books)  # the same tokens are replaced
    assert {**again, "tokens_per_second": 0} == {**scores, "tokens_per_second": 0}
    assert "Detects replaced words in a text" in (learnt / "MODEL_CARD.md").read_text()


def test_a_run_is_two_folders_of_the_reference(learnt: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ids = torch.tensor([[2, 5, 8, 6, 14, 7, 3]])
    ours = heedful.load(learnt, precision="fp32").model
    theirs = transformers.ElectraForPreTraining.from_pretrained(learnt).eval()
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits)
    filled = transformers.ElectraForMaskedLM.from_pretrained(learnt / "generator").eval()
    torch.testing.assert_close(ours.generator(ids).logits, filled(ids).logits)
    for folder in (learnt, learnt / "generator"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        assert tokenizer("the apple is red .")["input_ids"] == [2, 5, 8, 6, 13, 7, 3]


def test_words_that_look_replaced_are_slices_of_the_text(learnt: Path) -> None:
    ask = heedful.load(learnt)
    text = "  The apple is red.\nthe the SKY is blue ."
    answer = ask(text)
    assert [text[word.start : word.end] for word in answer.words] == [w.text for w in answer.words]
    assert [word.text for word in answer.words] == text.replace("red.", "red .").split()
    assert all(0 <= word.score <= 1 for word in answer.words)
    assert answer.replaced == tuple(word for word in answer.words if word.score >= 0.5)
    row = answer.to_dict(everything=True)
    assert set(row) == {"replaced", "words", "tokens_total", "tokens_used"}
    assert set(answer.to_dict()) == {"replaced", "tokens_total", "tokens_used"}
    odd = ask("the apple is red . the apple apple red .").replaced
    assert [(word.start, word.text) for word in odd] == [(29, "apple")]
    assert ask("").words == ()
    with pytest.raises(UserError, match="a pair, but this run takes single texts"):
        ask(("the apple", "is red"))


def test_a_long_text_is_read_in_windows(learnt: Path) -> None:
    ask = heedful.load(learnt, long_text="window")
    text = "the apple is red . the coal is black . " * 12
    answer = ask(text)
    assert answer.tokens_used == answer.tokens_total == len(answer.words) == 120
    assert [word.text for word in answer.words] == text.split()
    cut = heedful.load(learnt, long_text="head")(text)
    assert cut.tokens_used == len(cut.words) == 30


def test_a_word_of_a_run_is_explained(learnt: Path) -> None:
    explanation = heedful.explain(learnt, "the apple is blue .", target="blue")
    assert "'blue' looks replaced" in json.dumps(explanation.to_dict())
    with pytest.raises(UserError, match=r"target 'blu': not a word of the text.*'blue'"):
        heedful.explain(learnt, "the apple is blue .", target="blu")


def test_a_run_goes_on(learnt: Path, books: Path, tmp_path: Path) -> None:
    train(books, learnt, tmp_path / "run", steps=2, discriminator_weight=20.0)
    assert heedful.load(tmp_path / "run").task.discriminator_weight == 20
    rows = [{"text": f"the {thing}", "label": colour} for thing, colour in THINGS.items()]
    heedful.train("classify", train=rows, model=str(learnt), out=tmp_path / "colours", steps=2)
    model = heedful.load(tmp_path / "colours").model
    assert type(model) is heedful.ElectraForSequenceClassification


@pytest.mark.parametrize("arch", ["electra", "deberta", "deberta-v2"])
def test_from_scratch_by_the_command(
    books: Path, start: Path, tmp_path: Path, capsys: Out, arch: str
) -> None:
    words = ["train", "pretrain", "--train", books, "--out", tmp_path / "run", "--steps", "1"]
    words += ["--objective", "rtd", "--arch", arch, "--preset", "tiny", "--vocabulary", start]
    words += ["--batch-size", "2", "--max-length", "16", "--generator-size", "1"]
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    said = capsys.readouterr().err
    assert "\n1 step in " in said
    assert "heedful predict" in said
    ours = heedful.load(tmp_path / "run").model
    assert isinstance(ours, GeneratorDiscriminatorPair)
    decoder = {} if arch == "electra" else {"enhanced_mask_decoder": True}
    assert ours.generator.config == replace(ours.config, **decoder)
    assert run(["predict", str(tmp_path / "run"), "the apple is red ."]) == 0
    assert "replaced" in json.loads(capsys.readouterr().out)
    assert run(["score", str(tmp_path / "run"), "the apple"]) == 2
    assert "only masked and causal language models score" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "rtd", "model": "TINY"}, "has no generator/; give a finished run of rtd"),
        (
            {"objective": "rtd", "preset": "tiny", "vocabulary": "START"},
            "arch bert has no head for it; give arch deberta, deberta-v2, electra",
        ),
        ({"objective": "rtd", "generator_size": 0.5}, "generator_size is for a model from scratch"),
        ({"objective": "rtd", "generator_size": 2.0}, "generator_size 2.0: must be from 0.01 to 1"),
        ({"objective": "mlm", "generator_size": 0.5}, "generator_size is for objective rtd"),
        ({"discriminator_weight": 3.0}, "discriminator_weight is for objective rtd"),
        (
            {"objective": "rtd", "discriminator_weight": -1.0},
            "discriminator_weight -1.0: must be at least 0",
        ),
    ],
)
def test_wrong_options(
    options: dict[str, Any],
    message: str,
    books: Path,
    start: Path,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    names = {"TINY": str(tiny_model), "START": str(start)}
    values = {name: names.get(value, value) for name, value in options.items()}
    with pytest.raises(UserError, match=message):
        heedful.train("pretrain", train=books, out=tmp_path / "run", **values)
    assert not (tmp_path / "run").exists()


def test_accumulation_and_recomputing_give_the_same_step(
    books: Path, start: Path, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"steps": 1, "batch_size": 24, "dropout": 0.0, "clip": 0.0}
    ways = {
        "whole": {},
        "accumulated": {"batch_tokens": 64},
        "recomputed": {"gradient_checkpointing": True},
    }
    weights = []
    for name, way in ways.items():
        train(books, start, tmp_path / name, **more, **way)
        folders = (tmp_path / name, tmp_path / name / "generator")
        weights.append([read_tensors(folder / "model.safetensors") for folder in folders])
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0], rtol=1e-4, atol=1e-5)


def test_a_killed_run_goes_on_to_the_same_weights(
    books: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"steps": 8, "batch_size": 24, "dropout": 0.1, "checkpoint_every": 2}
    train(books, start, tmp_path / "whole", **more)
    fetch = Examples.fetch
    calls = 0

    def stopping(examples: Examples, items: Any, epoch: int) -> Batch:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise RuntimeError("killed")
        return fetch(examples, items, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(Examples, "fetch", stopping)
        with pytest.raises(RuntimeError, match="killed"):
            train(books, start, tmp_path / "cut", **more)
    train(books, start, tmp_path / "cut", **more, resume=True, workers=2)
    for folder in ("", "generator"):
        weights = [
            (tmp_path / name / folder / "model.safetensors").read_bytes()
            for name in ("whole", "cut")
        ]
        assert weights[0] == weights[1]


def test_a_run_is_served(learnt: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    from tests.serving import inside

    text = "the apple is red . the apple apple red ."
    answer = heedful.load(learnt, precision="fp32")(text)

    async def ask() -> list[Any]:
        loaded = inside.load(str(learnt), inside.ServeSettings(precision="fp32"))
        async with inside.service_of_loaded(loaded) as service:
            client = inside.client_of(service)
            tensors = [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]
            return [
                await client.post(f"/{path}", json=body)
                for path, body in (
                    ("api/runs/rtd/predict", {"texts": [text]}),
                    ("v2/models/rtd/infer", {"inputs": tensors}),
                    ("models/rtd", {"inputs": "the [MASK] is red ."}),
                )
            ]

    ours, v2, fill = asyncio.run(ask())
    assert same(ours.json()["answers"][0], answer.to_dict())
    outputs = {one["name"]: one["data"] for one in v2.json()["outputs"]}
    (word,) = answer.replaced
    assert same(outputs.pop("score"), [word.score])
    assert (outputs["text"], outputs["start"], outputs["row"]) == (["apple"], [29], [0])
    assert fill.status_code == 422, fill.text
    assert "none of these can answer this: rtd" in fill.text


def test_an_export_is_scored_with_the_generator_of_the_run(
    learnt: Path, books: Path, tmp_path: Path, capsys: Out
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    out = str(tmp_path / "onnx")
    words = ["export", str(learnt), "--to", out, "--format", "onnx", "--data", str(books)]
    assert run(words) == 0, capsys.readouterr().err
    changes = json.loads(capsys.readouterr().out)
    assert abs(changes["rtd_accuracy"]["change"]) < 0.001
    scores = heedful.evaluate(learnt, books, precision="fp32")
    for name in ("rtd_accuracy", "rtd_recall", "masked_accuracy"):
        assert changes[name]["model"] == pytest.approx(scores[name])


def test_an_export_finds_replaced_words_without_a_generator(
    learnt: Path, books: Path, tmp_path: Path, capsys: Out
) -> None:
    pytest.importorskip("transformers", reason="needs the extra [hf]")
    out, text = str(tmp_path / "hf"), "the apple is green ."
    assert run(["export", str(learnt), "--to", out, "--format", "hf"]) == 0
    ours, theirs = (heedful.load(folder, precision="fp32")(text) for folder in (learnt, out))
    assert same(theirs.to_dict(everything=True), ours.to_dict(everything=True))
    for words in (["evaluate", out], ["explain", out, "--heads"]):
        capsys.readouterr()
        assert run([*words, "--data", str(books)]) == 2
        assert (
            "scored on tokens that the generator replaces, but exports leave generator/ out"
            in capsys.readouterr().err
        )
