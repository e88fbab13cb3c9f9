"""Causal language models: how sequences are cut, their statistics, and the answers of a run."""

import json
import random
from collections.abc import Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder

import heedful
from heedful.batches import Batch, Draw, Example
from heedful.batches.corpus import Corpus, TokenizedDocument, write_corpus
from heedful.batches.sentence_pairs import Frame, causal_sequences
from heedful.cli import run
from heedful.commands.score import score_texts
from heedful.files import read_tensors
from heedful.interop.onnx.graphs import MODEL, graphs_of
from heedful.interop.onnx.runtime import OnnxGenerator
from heedful.interop.source import open_source
from heedful.models import GPT2Config, GPT2LMHeadModel
from heedful.tasks.objectives.clm import NextWords
from heedful.tokens import GPT2Tokenizer, PairLayout, Vocabulary
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import GPT2_KIND
from heedful.training.examples import Examples

Out = pytest.CaptureFixture[str]
THINGS = {"apple": "red", "grass": "green", "sky": "blue", "coal": "black", "snow": "white"}
END = 0
TOKENIZER = GPT2Tokenizer(Vocabulary(["<|endoftext|>", *ALPHABET], GPT2_KIND.special), [])


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide documents of sentences in which the thing determines the colour."""
    draw = random.Random(0)
    documents = []
    for _ in range(60):
        things = draw.choices(list(THINGS), k=2)
        documents.append("\n".join(f"the {thing} is {THINGS[thing]} ." for thing in things))
    path = tmp_path_factory.mktemp("books") / "books.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, books: Path) -> Path:
    pytest.importorskip("tokenizers", reason="needs the extra [vocabulary]")
    folder = tmp_path_factory.mktemp("words") / "words"
    assert (
        run(["vocabulary", str(books), "--kind", "bpe", "--size", "300", "--out", str(folder)]) == 0
    )
    return folder


@pytest.fixture(scope="module")
def learnt(books: Path, words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run from scratch."""
    out = tmp_path_factory.mktemp("runs") / "clm"
    train(books, out, arch="gpt2", preset="tiny", vocabulary=str(words), steps=60)
    return out


def train(books: Path, out: Path, **options: Any) -> None:
    quick = {"max_length": 32, "batch_size": 8, "precision": "fp32", "learning_rate": 3e-3}
    options = quick | {"dropout": 0.0, "say": lambda line: None} | options
    heedful.train("pretrain", train=books, out=out, objective="clm", **options)


# Sequences.


def cut(tmp_path: Path, layout: PairLayout, length: int, documents: list[list[int]]) -> list[Any]:
    tokenized = [
        TokenizedDocument(ids=np.array(ids, np.int32), ends=np.array([len(ids)], np.int32))
        for ids in documents
    ]
    path = tmp_path / "corpus.arrow"
    write_corpus(path, [tokenized])
    frame = Frame(layout=layout, max_length=length)
    return [row.ids.tolist() for row in causal_sequences(Corpus(path), frame, seed=0, epoch=0)]


DOCUMENTS = [[*range(10, 17)], [20], [*range(30, 45)], [50, 51]]


@pytest.mark.parametrize("end", [1, 2])
def test_a_text_is_ended_only_where_it_ends(tmp_path: Path, end: int) -> None:
    rows = cut(tmp_path, PairLayout(begin=(1,), end=(end,)), 8, DOCUMENTS)
    assert all(len(row) == 8 for row in rows[1:-2])
    assert all(row[0] == 1 and 2 <= len(row) <= 8 for row in rows)
    assert [token for row in rows for token in row if token > 2] == [*chain(*DOCUMENTS)]
    lasts = {document[-1] for document in DOCUMENTS}
    for row in rows:
        for token, following in pairwise(row):
            assert (following == end) == (token in lasts)


def test_what_is_told_of_a_sequence() -> None:
    examples = [
        Example(ids=np.array(ids, np.int32)) for ids in ([0, 5, 6, 0, 7, 8], [0, 9], [0, 4, 0])
    ]
    batch = NextWords().training_batch(
        examples, TOKENIZER, None, Draw(seed=0, epoch=0, rows=np.arange(3))
    )
    assert batch.inputs["positions"].tolist() == [0, 1, 2, 3, 4, 6, 12, 13]
    assert batch.targets["tokens"].tolist() == [5, 6, 0, 7, 8, 9, 4, 0]
    bert = heedful.BertTokenizer(Vocabulary([*tiny.SPECIAL, *"abcdef"]))
    examples = [Example(ids=np.array([2, 5, 6, 3, 2, 7, 3], np.int32))]
    batch = NextWords().training_batch(
        examples, bert, None, Draw(seed=0, epoch=0, rows=np.arange(1))
    )
    assert batch.targets["tokens"].tolist() == [5, 6, 3, 7, 3]  # and not what begins a text


def test_texts_of_a_sequence_are_computed_apart() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 257, "n_positions": 12, "n_embd": 24, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.5)).double().eval()
    rows = [[0, 5, 6, 0, 7, 8, 9], [0, 7, 8, 9], [0, 5, 6, 0]]
    examples = [Example(ids=np.array(ids, np.int32)) for ids in rows]
    batches = [
        NextWords().training_batch(
            some, TOKENIZER, None, Draw(seed=0, epoch=0, rows=np.arange(len(some)))
        )
        for some in (examples, examples[1:2], examples[2:])
    ]
    whole, *alone = (model(**batch.inputs).logits for batch in batches)
    torch.testing.assert_close(whole[:3], alone[1])
    torch.testing.assert_close(whole[3:6], alone[0])


# Runs.


def test_a_run_from_scratch_learns_and_goes_on(
    books: Path, learnt: Path, tmp_path: Path, capsys: Out
) -> None:
    scores = heedful.evaluate(learnt, books)
    assert scores["next_accuracy"] > scores["always_commonest"] + 0.2
    assert scores["perplexity"] < scores["unigram_perplexity"] / 4
    assert scores["tokens"] > 0
    assert not {"beam", "tokens_per_second"} & scores.keys()  # nothing is searched
    assert run(["predict", str(learnt), "the sky is", "--beam", "1", "--max-new-tokens", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] == " blue"
    assert run(["score", str(learnt), "the coal is black .", "the coal is white ."]) == 0
    right, wrong = map(json.loads, capsys.readouterr().out.splitlines())
    assert right["log_likelihood"] > wrong["log_likelihood"]
    config = json.loads((learnt / "config.json").read_text())
    assert config["architectures"] == ["GPT2LMHeadModel"]
    train(books, tmp_path / "on", model=str(learnt), steps=5)
    assert heedful.evaluate(tmp_path / "on", books)["perplexity"] < scores["unigram_perplexity"] / 4


def test_a_vocabulary_with_the_class_token_last(tmp_path: Path) -> None:
    write_folder("xlnet", tmp_path / "words")
    text, letters = tmp_path / "text.txt", "a b c d e f g h i j k l m n o p"
    text.write_text("\n\n".join([letters] * 40))
    out = tmp_path / "run"
    more = {"vocabulary": str(tmp_path / "words"), "steps": 120, "max_length": 34}
    train(text, out, arch="gpt2", preset="tiny", batch_size=16, **more)
    scores = heedful.evaluate(out, text, precision="fp32", say=lambda line: None)
    assert 0.9 < scores["next_accuracy"] <= 1
    writer = heedful.load(out, precision="fp32")
    # As in training, a text begins with the class token, and no token has a type.
    assert writer("a b c", beam=1, max_new_tokens=8).text == " d e f g"
    (likelihood,) = score_texts(writer, [(letters, "letters")])
    assert likelihood.perplexity < 1.2


def test_a_run_answers_as_one_of_generate(learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the sky is blue .\n" * 4)
    other = tmp_path / "writer"
    heedful.train(
        "generate",
        train=tmp_path / "text.txt",
        model=str(learnt),
        out=other,
        steps=1,
        learning_rate=1e-30,
        precision="fp32",
        dropout=0.0,
        say=lambda line: None,
    )
    texts = ["the sky is", "the", "the apple is red . the"]
    options = {"precision": "fp32"}
    one, two = (heedful.load(folder, **options) for folder in (learnt, other))
    for mine, its in zip(one(texts), two(texts), strict=True):
        assert [text.text for text in mine.n_best] == [text.text for text in its.n_best]


def test_likelihoods_are_the_references(learnt: Path) -> None:
    import transformers

    theirs = transformers.GPT2LMHeadModel.from_pretrained(learnt).eval()
    predictor = heedful.load(learnt, precision="fp32")
    texts = ["the sky is blue .", "a", " ".join(["the grass is green ."] * 9)]
    placed = [(text, "here") for text in texts]
    for text, found in zip(texts, score_texts(predictor, placed), strict=True):
        (ids,) = predictor.tokenizer.encode_batch([text])
        assert len(found.tokens) == len(ids)
        row = torch.tensor([[predictor.tokenizer.cls_token_id, *ids]])[:, :32]
        with torch.no_grad():
            scores = theirs(row).logits[0, :-1].log_softmax(-1)
        right = scores.gather(1, row[0, 1:, None]).squeeze(1).tolist()
        assert found.log_probabilities[: len(right)] == pytest.approx(right, abs=1e-4)
    last = torch.tensor([[predictor.tokenizer.cls_token_id, *ids[-31:]]])
    with torch.no_grad():
        scores = theirs(last).logits[0, -2].log_softmax(-1)
    assert found.log_probabilities[-1] == pytest.approx(float(scores[ids[-1]]), abs=1e-4)


def test_a_bert_learns_next_words_too(books: Path, tmp_path: Path) -> None:
    write_folder("bert", tmp_path / "model")
    train(books, tmp_path / "run", model=str(tmp_path / "model"), steps=2)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["architectures"], config["is_decoder"]) == (["BertLMHeadModel"], True)
    assert heedful.load(tmp_path / "run")("the sky").text is not None


def test_a_stopped_run_goes_on_to_the_same_weights(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder("gpt2", tmp_path / "model")
    options = {"model": str(tmp_path / "model"), "steps": 4, "dropout": 0.1, "batch_tokens": 64}
    train(books, tmp_path / "whole", **options)
    fetch, calls = Examples.fetch, 0

    def stopping(examples: Examples, items: Any, epoch: int) -> Batch:
        nonlocal calls
        calls += 1
        if calls == 10:  # of several for a step
            raise RuntimeError("killed")
        return fetch(examples, items, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(Examples, "fetch", stopping)
        with pytest.raises(RuntimeError, match="killed"):
            train(books, tmp_path / "cut", checkpoint_every=1, **options)
    train(books, tmp_path / "cut", checkpoint_every=1, resume=True, **options)
    weights = [read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "cut")]
    assert_same_bits(*weights, "stored")  # the same steps in the same order, on one machine


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--mask-share", "0.2"],
            "--mask-share has no effect: --objective clm masks nothing; leave it out",
        ),
        (
            ["--masking", "word"],
            "--masking has no effect: --objective clm masks nothing; leave it out",
        ),
        (["--objective", "mlm"], "have no head for masked words; give --objective clm"),
    ],
)
def test_what_means_nothing_is_refused(
    books: Path, words: Path, tmp_path: Path, capsys: Out, more: list[str], message: str
) -> None:
    start = ["train", "pretrain", "--train", str(books), "--out", str(tmp_path / "run")]
    start += ["--arch", "gpt2", "--preset", "tiny", "--vocabulary", str(words)]
    more = more if "--objective" in more else ["--objective", "clm", *more]
    assert run([*start, *more]) == 2
    assert message in capsys.readouterr().err


def test_a_run_is_explained_reported_and_taught_by(
    books: Path, learnt: Path, tmp_path: Path
) -> None:
    explanation = heedful.explain(learnt, "the sky is", method="leave-one-out")
    (scores,) = explanation.attributions[0].scores
    shown = explanation.sides[0].display_tokens()
    assert shown[0] == "<s>"
    assert len(scores) == len(shown)
    best = max(range(len(shown)), key=lambda at: abs(scores[at]))
    assert shown[best].strip() in {"sky", "is"}
    assert "next_accuracy" in heedful.report(learnt, books, say=lambda line: None).html
    train(books, tmp_path / "student", teacher=str(learnt), student_layers=1, steps=3)
    assert len(heedful.load_model(tmp_path / "student").body.encoder.blocks) == 1


def test_a_run_is_exported_with_its_cache(learnt: Path) -> None:
    """The export also scores rows of several texts as the model does."""
    source = open_source(learnt)
    (graph,) = graphs_of(source)
    assert {*graph.inputs} >= {"input_ids", "past_key_values.0.key", "past_key_values.1.value"}

    def computes(inputs: Mapping[str, Any]) -> dict[str, Any]:
        outputs = graph.compute(graph.model, *(inputs[name] for name in graph.inputs))
        return dict(zip(graph.outputs, outputs, strict=True))

    begin, end = source.tokenizer.cls_token_id, source.tokenizer.sep_token_id
    rows = [[begin, 40, 41, end, begin, 50, 51, end], [begin, 60, 61]]
    examples = [Example(ids=np.array(row, np.int32)) for row in rows]
    draw = Draw(seed=0, epoch=0, rows=np.arange(2))
    batch = NextWords().training_batch(examples, source.tokenizer, None, draw)
    writer = OnnxGenerator(source.model, {MODEL: computes})
    with torch.no_grad():
        found, right = (NextWords().score(model, batch) for model in (writer, source.model))
    torch.testing.assert_close(found, right)


def test_a_folder_of_gpt2_says_what_it_can_learn(books: Path, tmp_path: Path, capsys: Out) -> None:
    write_folder("gpt2", tmp_path / "model")
    start = ["train", "pretrain", "--train", str(books), "--model", str(tmp_path / "model")]
    start += ["--objective", "mlm+nsp"]
    assert run([*start, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "its models have no head for pairs of texts; give --objective clm" in error
