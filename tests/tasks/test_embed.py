"""Embeddings of texts from the command line on small files, and wrong input."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits

import heedful
from heedful.batches import Batch, Draw, Example
from heedful.cli import run
from heedful.commands.nearest import Neighbours
from heedful.errors import UserError
from heedful.models import BertModel
from heedful.predictor import Predictor
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import LengthLimit
from heedful.tasks.embed import Embed, _shared
from heedful.tokens import BertTokenizer

Out = pytest.CaptureFixture[str]
THINGS = {"red": "apple", "green": "grass", "blue": "sky"}
PAIR = ["--text", "first", "--text-pair", "second"]
SCORE = ["--label", "score"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Provide pairs of texts, with a score for whether they name the same colour."""
    rows = ["first,second,score"]
    for number in range(4):
        for one in THINGS:
            for other in THINGS:
                score = 5 if one == other else 1
                rows.append(f"the {'very ' * number}{one} sky,a {other} apple,{score}")
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def partners(tmp_path: Path) -> Path:
    """Provide pairs of texts that belong together."""
    rows = ["first,second"]
    rows += [f"the {word} sky,a very {word} one {word}" for word in [*THINGS, *THINGS.values()]]
    path = tmp_path / "partners.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def train(tiny_model: Path, data: Path, out: Path, *more: str, rate: str = "1e-2") -> int:
    words = ["train", "embed", "--model", tiny_model, "--train", data, "--out", out, *PAIR]
    words += ["--batch-size", "6", "--learning-rate", rate, "--dropout", "0"]
    words += ["--precision", "fp32", *more]
    return run([str(word) for word in words])


def test_pairs_with_scores(tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out) -> None:
    out = tmp_path / "run"
    options = ["--epochs", "10", "--dev", str(pairs), *SCORE, "--evaluate-every", "30"]
    assert train(tiny_model, pairs, out, *options) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(pairs), *PAIR, *SCORE]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["spearman"] > 0.8
    assert scores["items"] == 36
    model = heedful.load(out)
    same, other = model([("the red sky", "a red apple"), ("the red sky", "a blue apple")])
    assert same.similarity > other.similarity + 0.3
    assert same.vector.norm().item() == pytest.approx(1)
    assert (same.tokens_total, same.tokens_used, same.windows) == (6, 6, 2)
    assert run(["predict", str(out), "--input", str(pairs), *PAIR, "--plain"]) == 0
    assert len(capsys.readouterr().out.split()) == 36


def test_pairs_that_belong_together(
    tiny_model: Path, partners: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    options = ["--epochs", "60", "--dev", str(partners), "--evaluate-every", "60"]
    assert train(tiny_model, partners, out, *options) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(partners), *PAIR]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["recall_at_1"] > 0.9
    assert scores["recall_at_5"] >= scores["recall_at_1"]
    assert (scores["items"], scores["candidates"]) == (6, 6)
    assert run(["predict", str(out), "the red sky"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert len(line["vector"]) == 16
    assert sum(value**2 for value in line["vector"]) == pytest.approx(1, abs=1e-5)


def test_the_nearest_lines_of_a_corpus(
    tiny_model: Path, partners: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, partners, out, "--epochs", "60") == 0
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a very blue one blue\n\na very red one red\na very sky one sky\n")
    capsys.readouterr()
    command = ["predict", str(out), "the red sky", "the blue sky", "--against", str(corpus)]
    assert run([*command, "--top", "2"]) == 0
    red, blue = map(json.loads, capsys.readouterr().out.splitlines())
    assert red["nearest"][0]["text"] == "a very red one red"
    assert red["nearest"][0]["line"] == 3
    assert blue["nearest"][0]["text"] == "a very blue one blue"
    assert len(blue["nearest"]) == 2
    assert 1 >= blue["nearest"][0]["score"] >= blue["nearest"][1]["score"] >= -1
    assert (red["tokens_total"], red["tokens_used"]) == (3, 3)
    assert run([*command, "--plain"]) == 0
    assert capsys.readouterr().out.splitlines() == ["a very red one red", "a very blue one blue"]


def _draw(examples: int) -> Draw:
    return Draw(seed=0, epoch=0, rows=torch.arange(examples).numpy())


def _encode(
    tiny_model: Path, task: Embed, *texts: tuple[str, str], score: str | None = None
) -> list[Example]:
    labels = None if score is None else (score,)
    records = [
        Record(text=first, text_pair=second, labels=labels, source="x", line=number)
        for number, (first, second) in enumerate(texts, start=1)
    ]
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    fitted = task.encode(
        records, tokenizer, LengthLimit(max_length=20, long_text="head"), labelled=True
    )
    return [piece for parts in fitted for piece in parts.pieces]


def _loss(tiny_model: Path, task: Embed, examples: list[Example]) -> Any:
    model = BertModel.from_pretrained(tiny_model)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    batch = task.batch(examples, tokenizer, _draw(len(examples)))
    total = task.loss(model, batch)
    assert task.loss_divisor(batch) == len(examples) / 2
    alone = [
        task.run_model(model, task.batch([each], tokenizer, None), PredictSettings())
        for each in examples
    ]
    return total, F.normalize(torch.cat(alone), dim=-1)


def test_each_text_is_told_from_the_others_partners(tiny_model: Path) -> None:
    task = Embed(pooling="mean", scale=7.0)
    texts = [("the sky", "very blue"), ("the apple", "red"), ("a", "green grass is")]
    total, vectors = _loss(tiny_model, task, _encode(tiny_model, task, *texts))
    scores = 7.0 * vectors[::2] @ vectors[1::2].T
    right = torch.arange(3)
    there = F.cross_entropy(scores, right, reduction="sum")
    back = F.cross_entropy(scores.T, right, reduction="sum")
    torch.testing.assert_close(total, (there + back) / 2)


def test_a_shared_text_is_no_wrong_answer(tiny_model: Path) -> None:
    task = Embed(pooling="cls", scale=7.0)
    texts = [("the sky", "very blue"), ("the sky", "red"), ("a", "red")]
    total, vectors = _loss(tiny_model, task, _encode(tiny_model, task, *texts))
    scores = 7.0 * vectors[::2] @ vectors[1::2].T
    shared = torch.tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).bool()
    scores = scores.masked_fill(shared, -torch.inf)
    right = torch.arange(3)
    there = F.cross_entropy(scores, right, reduction="sum")
    back = F.cross_entropy(scores.T, right, reduction="sum")
    torch.testing.assert_close(total, (there + back) / 2)


def test_a_text_is_no_wrong_answer_to_itself() -> None:
    # The pairs 1-2, 2-3 and 3-6 are a chain: the second text of each is the first of the next.
    ids = torch.tensor([[1], [2], [2], [3], [4], [5], [3], [6]])
    shared = [[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]]
    assert_same_bits(_shared(ids), torch.tensor(shared).bool(), "whole numbers")


@pytest.mark.parametrize("option", ["--train", "--dev"])
def test_pairs_that_nothing_tells_apart(
    tiny_model: Path, partners: Path, tmp_path: Path, capsys: Out, option: str
) -> None:
    same = tmp_path / "same.csv"
    same.write_text("first,second\nthe sky,blue\nan apple,blue\n")
    files = (same, partners) if option == "--train" else (partners, same)
    assert train(tiny_model, files[0], tmp_path / "run", "--dev", str(files[1])) == 2
    assert f"every pair of {option} has the same second text" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_of_texts_that_are_equally_near_the_first_comes_first() -> None:
    vectors = F.normalize(torch.tensor([[1.0, 2], [3, 1], [1, 2 + 1e-7], [2, 4], [1, 2]]), dim=-1)
    texts = [
        Record(text="a", text_pair=None, labels=None, source="x", line=number)
        for number in range(1, 6)
    ]
    answer = SimpleNamespace(vector=torch.tensor([1.0, 2]), tokens_total=1, tokens_used=1)
    for top, lines in ((1, [1]), (3, [1, 3, 4]), (5, [1, 3, 4, 5, 2])):
        row = Neighbours(texts, vectors, top).nearest(answer)
        assert [text["line"] for text in row["nearest"]] == lines
        assert row["nearest"][0]["score"] == pytest.approx(1)


def test_what_is_nearest_is_not_told_of_a_damaged_model() -> None:
    text = Record(text="a", text_pair=None, labels=None, source="x", line=1)
    answer = SimpleNamespace(vector=torch.tensor([1.0, 2]), tokens_total=1, tokens_used=1)
    with pytest.raises(
        UserError, match="a vector has values that are not numbers; the model is damaged"
    ):
        Neighbours([text], torch.full((1, 2), torch.nan), 1).nearest(answer)


def test_a_score_is_learnt_as_a_cosine(tiny_model: Path) -> None:
    task = Embed(pooling="mean", scored=True, lowest=1.0, highest=5.0)
    examples = _encode(tiny_model, task, ("the sky", "very blue"), ("a", "red"), score="2")
    total, vectors = _loss(tiny_model, task, examples)
    cosines = (vectors[::2] * vectors[1::2]).sum(-1)
    torch.testing.assert_close(total, (cosines - 0.25).square().sum())


def test_long_texts_are_read_in_windows(tiny_model: Path, partners: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, partners, out, "--steps", "1", "--max-length", "12") == 0
    answer = heedful.load(out)("very " * 25)
    assert (answer.tokens_total, answer.tokens_used) == (25, 25)
    assert answer.windows > 2
    head = Predictor.load(out, PredictSettings(long_text="head"))("very " * 25)
    assert (head.tokens_total, head.tokens_used, head.windows) == (25, 10, 1)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_scores_under_the_usual_name_are_learnt_where_it_is_given(
    tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out, ending: str
) -> None:
    head, *rows = [line.split(",") for line in pairs.read_text().splitlines()]
    data = tmp_path / f"labelled.{ending}"
    lines = [",".join(["first", "second", "label"]), *map(",".join, rows)]
    if ending == "jsonl":
        keys = [*head[:2], "label"]
        lines = [json.dumps(dict(zip(keys, [*row[:2], int(row[2])], strict=True))) for row in rows]
    data.write_text("\n".join(lines) + "\n")
    unread = "the column 'label' is ignored; to train on its numbers as scores, give --label label"
    for name, more in (("named", ["--label", "label"]), ("not", [])):
        out = tmp_path / name
        capsys.readouterr()
        assert train(tiny_model, data, out, "--steps", "1", *more) == 0
        assert (unread in capsys.readouterr().err) is not bool(more)
        assert heedful.load(out).task.scored is bool(more)
        assert run(["evaluate", str(out), "--data", str(data), *PAIR, *more]) == 0
        assert ("spearman" in json.loads(capsys.readouterr().out)) is bool(more)


def test_a_run_does_not_go_on_with_the_other_kind_of_pairs(
    tiny_model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    pairs.write_text(pairs.read_text().replace("score", "label"))
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("heedful.training.fit._finish", None)
        with pytest.raises(TypeError):
            train(tiny_model, pairs, out, "--steps", "1")
    capsys.readouterr()
    assert train(tiny_model, pairs, out, "--steps", "1", "--resume", "--label", "label") == 2
    said = f"{out} has another training goal: its 'scored' is False, now it would be True"
    assert said in capsys.readouterr().err
    assert train(tiny_model, pairs, out, "--steps", "1", "--resume") == 0


def test_a_rate_of_the_head_has_no_effect(
    tiny_model: Path, partners: Path, tmp_path: Path, capsys: Out
) -> None:
    more = ["--steps", "1", "--head-learning-rate", "1e-3"]
    assert train(tiny_model, partners, tmp_path / "run", *more) == 0
    assert (
        "--head-learning-rate has no effect: train embed trains no head" in capsys.readouterr().err
    )


def test_a_last_pair_joins_the_batch_before_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def batch(task: Embed, examples: Any, *rest: Any) -> Batch:
        sizes.append(len(examples) // 2)
        return whole(task, examples, *rest)

    whole = Embed.batch
    monkeypatch.setattr(Embed, "batch", batch)
    rows = [{"first": f"sky {number}", "second": f"very {number}"} for number in range(7)]
    settings: dict[str, Any] = {"text": "first", "text_pair": "second", "model": str(tiny_model)}
    settings |= {"batch_size": 3, "epochs": 2, "say": lambda line: None}
    heedful.train("embed", train=rows, out=tmp_path / "run", **settings)
    assert sorted(sizes) == [3, 3, 4, 4]


def test_pairs_with_scores_are_split_into_micro_batches(
    tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def batch(task: Embed, examples: Any, *rest: Any) -> Batch:
        made = whole(task, examples, *rest)
        sizes.append(made.num_positions)
        return made

    whole = Embed.batch
    monkeypatch.setattr(Embed, "batch", batch)
    options = ["--steps", "1", "--batch-tokens", "64", *SCORE]
    assert train(tiny_model, pairs, tmp_path / "run", *options) == 0, capsys.readouterr().err
    assert len(sizes) > 1
    assert max(sizes) <= 64


def test_what_is_wrong_is_named(tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out) -> None:
    def error(*more: str) -> str:
        capsys.readouterr()
        assert train(tiny_model, pairs, tmp_path / "run", *more) == 2
        text = capsys.readouterr().err.strip()
        assert text.count("\n") == 0
        return text

    assert "--long-text window: texts are compared as a whole" in error("--long-text", "window")
    assert "leave out --label-separator" in error("--label-separator", ";")
    assert "--scale 0.0: must be a number above 0" in error("--scale", "0")
    never_split = "--batch-tokens has no effect on pairs without scores: a batch of them is never"
    for tokens in ("64", "auto"):
        assert f"{never_split} split; give a smaller --batch-size" in error(
            "--batch-tokens", tokens
        )
    with pairs.open("a") as stream:
        stream.write("a sky,,3\n")
    assert f"{pairs}, line 38: an empty text in a pair" in error()
    assert "line 38" in error(*SCORE)
    with pairs.open("w") as stream:
        stream.write("first,second,score\na sky,a,3\nan apple,red,3\n")
    assert "every score of the training data is 3: nothing to learn" in error(*SCORE)
    assert "--scale is for pairs without scores" in error(*SCORE, "--scale", "5")
    with pairs.open("a") as stream:
        stream.write("a sky,red,much\n")
    assert "line 4: expected a number, found 'much'" in error(*SCORE)
    words = ["train", "embed", "--train", str(pairs), "--out", str(tmp_path / "run"), *PAIR[:2]]
    assert run(words) == 2
    assert "name the column of the second text (--text-pair)" in capsys.readouterr().err


def test_a_pair_without_others_in_its_batch_is_refused(
    tiny_model: Path, pairs: Path, partners: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "text": "first",
        "text_pair": "second",
        "model": str(tiny_model),
        "batch_size": 1,
        "steps": 1,
        "say": lambda line: None,
    }
    with pytest.raises(UserError, match="batch_size 1: the other pairs of a batch are the"):
        heedful.train("embed", train=partners, out=tmp_path / "partners", **settings)
    heedful.train("embed", train=pairs, out=tmp_path / "pairs", label="score", **settings)


def test_a_corpus_is_for_vectors(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    words = ["train", "classify", "--train", colours, "--model", tiny_model, "--out", out]
    assert run([str(word) for word in [*words, "--steps", "1"]]) == 0
    assert run(["predict", str(out), "a sky", "--against", str(colours)]) == 2
    assert "--against is for embed runs; this is a classify run" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pairs", "scores"])
def test_evaluating_on_the_other_kind_of_pairs(
    tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out, kind: str
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, pairs, out, "--steps", "1", *(SCORE if kind == "scores" else [])) == 0
    capsys.readouterr()
    other = SCORE if kind == "pairs" else []
    assert run(["evaluate", str(out), "--data", str(pairs), *PAIR, *other]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert ("spearman" in scores) == (kind == "pairs")
    assert ("recall_at_1" in scores) == (kind == "scores")


def test_nothing_to_find(tiny_model: Path) -> None:
    scores = Embed(pooling="mean").scores()
    with pytest.raises(UserError, match="no items to score"):
        scores.compute()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_what_a_vector_is(tiny_model: Path, pooling: Any) -> None:
    task = Embed(pooling=pooling)
    model = BertModel.from_pretrained(tiny_model)
    examples = _encode(tiny_model, task, ("the sky is very blue", "red"))
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    batch = task.batch(examples, tokenizer, None)
    assert "attention_mask" in batch.inputs
    found = task.run_model(model, batch, PredictSettings())
    for example, vector in zip(examples, found, strict=True):
        hidden = model(torch.tensor(example.ids[None]).long()).last_hidden_state[0]
        torch.testing.assert_close(vector, hidden.mean(0) if pooling == "mean" else hidden[0])


def test_columns_of_a_corpus_and_of_what_is_looked_up(
    tiny_model: Path, partners: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, partners, out, "--epochs", "1") == 0
    table, lines = tmp_path / "a.csv", tmp_path / "a.txt"
    table.write_text("body\nthe sky\n")
    lines.write_text("the sky\n")

    def nearest(*words: str | Path) -> str:
        capsys.readouterr()
        code = run(["predict", str(out), "--plain", *map(str, words)])
        said = capsys.readouterr()
        return said.err if code else said.out

    for one, other in ((table, table), (table, lines), (lines, table)):
        assert nearest("--input", one, "--against", other, "--text", "body") == "the sky\n"
    assert nearest("a sky", "--against", table, "--text", "body") == "the sky\n"
    table.write_text('body\n"the\n sky"\n')
    assert nearest("a sky", "--against", table, "--text", "body") == "the sky\n"
    for words in (("--input", lines), ("a sky",)):
        assert "read as plain text" in nearest(*words, "--against", lines, "--text", "body")
    assert nearest("a", "--context", "b", "--against", lines) == (
        "heedful: --context makes pairs, but --against searches with single texts: give one of "
        "them\n"
    )
    pairs = ("--text", "body", "--text-pair", "body")
    assert "--text-pair makes pairs" in nearest("--input", table, "--against", lines, *pairs)
    assert "--top is for the texts of --against" in nearest("a sky", "--top", "3")
