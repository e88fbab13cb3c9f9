"""Generation from the command line: text to text, and continuing a text."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tiny_folders import write_folder
from torch import nn

import heedful
from heedful import BertModel, GPT2Config
from heedful.batches import Batch, Draw, Example
from heedful.cli import run
from heedful.commands.evaluate import evaluate
from heedful.decoding.search import Hypothesis
from heedful.errors import UserError
from heedful.models import load_model
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    GenerateSettings,
    PredictSettings,
    RunSettings,
    TrainSettings,
)
from heedful.settings.python import PredictOptions
from heedful.task import LengthLimit, Recipe
from heedful.tasks.generate import Generate
from heedful.tasks.generation import GenerationOutput
from heedful.tokens import BertTokenizer, Vocabulary, load_encoder_tokenizer

Out = pytest.CaptureFixture[str]
RATES = ["--learning-rate", "1e-2", "--head-learning-rate", "1e-2", "--precision", "fp32"]
COLOURS = {"red": "apple", "green": "grass", "blue": "sky"}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [
        f'the {"very " * (number % 4)}{colour} {thing}.,"{thing} is {colour}, very {colour}!"'
        for number in range(6)
        for colour, thing in COLOURS.items()
    ]
    path = tmp_path / "pairs.csv"
    path.write_text("text,reply\n" + "\n".join(rows) + "\n")
    return path


def train(model: Path, data: Path, out: Path, *more: str) -> int:
    words = ["train", "generate", "--model", model, "--train", data, "--out", out, *RATES]
    return run([str(word) for word in [*words, "--batch-size", "9", "--dropout", "0", *more]])


def test_a_text_for_a_text(tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out) -> None:
    out, columns = tmp_path / "run", ["--label", "reply"]
    options = [*columns, "--epochs", "150", "--evaluate-every", "300", "--dev", str(pairs)]
    assert train(tiny_model, pairs, out, *options) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(pairs), *columns]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["bleu"] > 99
    assert scores["perplexity"] < 1.1
    assert "case:lc" in scores["signatures"]["bleu"]

    predict = heedful.load(out)
    answer = predict("the blue sky.")
    assert answer.text == "sky is blue, very blue!"
    assert answer.n_best[0].ended
    assert answer.n_best[0].score >= answer.n_best[1].score
    # What is written does not depend on the texts beside it.
    alone = [predict(text).text for text in ("the red apple.", "the very very green grass.")]
    assert [one.text for one in predict(["the red apple.", "the very very green grass."])] == alone

    assert run(["predict", str(out), "the green grass.", "--plain", "--beam", "1"]) == 0
    assert capsys.readouterr().out == "grass is green, very green!\n"
    assert run(["predict", str(out), "the red apple.", "--sample", "--temperature", "0.01"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["text"] == "apple is red, very red!"
    assert row["tokens_total"] == row["tokens_used"] == 4
    words = ["predict", str(out), "the red apple.", "--all-scores", "--sample", "--top", "3"]
    assert run(words) == 0
    assert len(json.loads(capsys.readouterr().out)["n_best"]) == 3
    assert run(["predict", str(out), "the red apple.", "--beam", "2", "--top", "3"]) == 2
    assert "--top 3: a search with --beam 2 finds only 2 texts" in capsys.readouterr().err


def test_a_long_text_is_read_in_windows_that_are_joined(
    tiny_model: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert train(tiny_model, pairs, out, "--label", "reply", "--epochs", "150") == 0
    predict = heedful.load(out, max_length=8, long_text="window")
    # Each window holds six tokens, and shares none with the next.
    answer = predict("the very very blue sky. the very very red apple.")
    assert answer.text == "sky is blue, very blue! apple is red, very red!"
    assert answer.tokens_used == answer.tokens_total == 12
    # What is evaluated is what is predicted.
    data = tmp_path / "long.csv"
    source = "the very very blue sky. the very very red apple."
    data.write_text(f'text,reply\n{source},"{answer.text}"\n')
    columns = ColumnSettings(label="reply")
    assert evaluate(out, [data], columns, predict)["bleu"] == pytest.approx(100)
    # Nor do they where the last is not full.
    assert predict("the blue sky. the red apple.").text == answer.text


def test_on_from_a_text(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    data, out = tmp_path / "book.txt", tmp_path / "run"
    lines = [f"the {thing} is {colour}, very {colour}!" for colour, thing in COLOURS.items()]
    data.write_text("\n\n".join(lines * 6) + "\n")
    assert train(tiny_model, data, out, "--epochs", "150") == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(data)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["perplexity"] < 1.3  # three ways to begin, then no choice: 3 ** (1 / 8) = 1.15
    assert run(["predict", str(out), "the sky", "--plain"]) == 0
    assert capsys.readouterr().out == "is blue, very blue!\n"


def test_texts_of_a_table_are_scored_as_those_of_plain_text(tmp_path: Path, capsys: Out) -> None:
    model, plain, table = tmp_path / "gpt2", tmp_path / "a.txt", tmp_path / "a.csv"
    write_folder("gpt2", model)
    plain.write_text("the sky is blue\nthe grass is green\n")
    table.write_text('body,stars\nthe sky is blue,5\n" ",1\nthe grass is green,4\n')
    scores = []
    for data in ([str(plain)], [str(table), "--text", "body"]):
        assert run(["evaluate", str(model), "--data", *data]) == 0, capsys.readouterr().err
        scores.append(json.loads(capsys.readouterr().out))
        del scores[-1]["data"]
    assert scores[0] == pytest.approx(scores[1])
    texts = [{"text": line} for line in plain.read_text().splitlines()]
    whole = heedful.evaluate(model, texts, say=lambda line: None)
    assert whole["perplexity"] == pytest.approx(scores[0]["perplexity"], rel=1e-6)
    assert run(["evaluate", str(model), "--data", str(table)]) == 2
    assert "a.csv: no column 'text'; columns: 'body', 'stars'" in capsys.readouterr().err


@pytest.mark.parametrize("option", [{"no_repeat_ngram": 1}, {"repetition_penalty": 1e3}])
def test_what_is_written_can_be_kept_from_saying_the_same(
    tmp_path: Path, option: PredictOptions
) -> None:
    write_folder("gpt2", tmp_path / "gpt2")
    options: PredictOptions = {"beam": 1, "max_new_tokens": 12, "precision": "fp32"}
    plain = heedful.load(tmp_path / "gpt2", **options)("the sky").text
    varied = heedful.load(tmp_path / "gpt2", **{**options, **option})("the sky").text
    letters = [letter for letter in varied if letter.isascii()]  # each a token
    assert len({*letters}) == len(letters)
    assert varied != plain


def test_what_was_cut_or_cannot_be_is_told_by_options(tmp_path: Path, capsys: Out) -> None:
    write_folder("gpt2", tmp_path / "gpt2")
    words = ["predict", str(tmp_path / "gpt2"), "the sky " * 20, "--max-new-tokens", "4"]
    assert run(words) == 0
    told = capsys.readouterr().err
    assert (
        "1 text was too long and truncated; a text to continue is always cut at its start" in told
    )
    assert run([*words, "--min-new-tokens", "4"]) == 2
    told = capsys.readouterr().err
    assert "--min-new-tokens 4: at most 4 tokens are generated, and one of them is the end" in told
    assert run([*words, "--min-new-tokens", "3"]) == 0
    most = GPT2Config.from_pretrained(tmp_path / "gpt2").n_positions // 2
    words = words[:-2]
    assert run([*words, "--max-new-tokens", str(most)]) == 0
    capsys.readouterr()
    assert run([*words, "--max-new-tokens", str(most + 1)]) == 2
    told = capsys.readouterr().err
    assert f"the model continues a text by at most {most} tokens, half of its positions" in told


def test_a_long_text_is_scored_in_windows(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    data, out = tmp_path / "book.txt", tmp_path / "run"
    data.write_text("the sky is " + "very " * 60 + "blue\nthe grass is green\n")
    assert train(tiny_model, data, out, "--steps", "1", "--dev", str(data)) == 0
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(data)]) == 0
    # Each of the 64 and 4 words once, in two windows and one, each with an end.
    assert json.loads(capsys.readouterr().out)["items"] == 64 + 4 + 3


@pytest.mark.usefixtures("bf16_anywhere")
def test_pairs_are_learnt_in_mixed_precision(tiny_model: Path, pairs: Path, tmp_path: Path) -> None:
    words = ["train", "generate", "--model", tiny_model, "--train", pairs, "--label", "reply"]
    words += ["--steps", "1", "--precision", "bf16", "--out", tmp_path / "run"]
    assert run([str(word) for word in words]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label-separator", ";"], "leave out --text-pair and --label-separator"),
        (["--text-pair", "reply"], "leave out --text-pair and --label-separator"),
        (["--label", "answer"], "no column 'answer'"),
    ],
)
def test_wrong_columns_are_refused(
    tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out, options: list[str], message: str
) -> None:
    assert train(tiny_model, pairs, tmp_path / "run", *options) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0


@pytest.mark.parametrize("family", ["gpt2", "distilbert", "albert"])
def test_what_cannot_read_one_text_to_write_another_is_named(
    family: str, pairs: Path, tmp_path: Path, capsys: Out
) -> None:
    write_folder(family, tmp_path / family)
    assert train(tmp_path / family, pairs, tmp_path / "run", "--label", "reply") == 2
    message = f"no model of '{family}' can generate a target text from a source text; give a BERT"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("family", ["roberta", "electra"])
def test_a_family_of_its_like_reads_one_text_to_write_another(
    family: str, pairs: Path, tmp_path: Path, capsys: Out
) -> None:
    """The run loads, and a text as long as the decoder's positions is explained completely."""
    write_folder(family, tmp_path / family)
    model = load_model(tmp_path / family, head="causal_lm", is_decoder=True)
    end = load_encoder_tokenizer(tmp_path / family).sep_token_id
    head = "lm_head" if family == "roberta" else "generator_lm_head"
    with torch.no_grad():  # so that no text ends
        model.get_submodule(head).bias[end] -= 9
    model.save_pretrained(tmp_path / family, overwrite=True)
    out = tmp_path / "run"
    options = ["--label", "reply", "--steps", "2"]
    assert train(tmp_path / family, pairs, out, *options) == 0
    config = json.loads((out / "config.json").read_text())
    assert [config[part]["model_type"] for part in ("encoder", "decoder")] == [family, family]
    most = heedful.load(out).model.max_target_positions
    capsys.readouterr()
    assert run(["explain", str(out), "the sky", "--max-new-tokens", str(most), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert not answer["ended"]


def test_a_run_that_writes_replies_does_not_sort_or_tag(tmp_path: Path, capsys: Out) -> None:
    golden = Path(__file__).parents[1] / "golden" / "0.1.0"
    for task, data in (("classify", "classify.csv"), ("tag", "tag.conll")):
        words = ["train", task, "--model", golden / "replies", "--train", golden / "data" / data]
        assert run([*map(str, words), "--out", str(tmp_path / task)]) == 2
        error = capsys.readouterr().err.splitlines()
        assert "it has seq2seq" in error[-1]


def test_texts_and_pairs_are_not_mixed(
    tiny_model: Path, pairs: Path, tmp_path: Path, capsys: Out
) -> None:
    (tmp_path / "more.txt").write_text("the sky is blue\n")
    dev = ["--label", "reply", "--dev", str(tmp_path / "more.txt")]
    assert train(tiny_model, pairs, tmp_path / "run", *dev) == 2
    assert "more.txt, line 1: expected a source text and a target text" in capsys.readouterr().err


def test_a_killed_run_goes_on_exactly(tiny_model: Path, pairs: Path, tmp_path: Path) -> None:
    options = ["--label", "reply", "--steps", "6", "--checkpoint-every", "2"]
    assert train(tiny_model, pairs, tmp_path / "once", *options) == 0
    assert train(tiny_model, pairs, tmp_path / "twice", *options, "--max-minutes", "1e-9") == 0
    (tmp_path / "twice" / "manifest.json").unlink()  # as if killed before its end was written
    assert train(tiny_model, pairs, tmp_path / "twice", *options, "--resume") == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "twice")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("written", "text"),
    [((6, 7), "lows"), ((5, 7), "bes"), ((8, 5), ". be"), ((5, 3), "be"), ((), "")],
)
def test_what_wordpiece_goes_on_with_has_no_mark(written: tuple[int, ...], text: str) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "be", "##low", "##s", "."]
    tokenizer = BertTokenizer(Vocabulary(tokens, source="here"))
    task, (record,) = Generate(pairs=False), Generate.from_texts(["be"])
    fit = LengthLimit(long_text="window", max_length=8)
    (fitted,) = task.encode([record], tokenizer, fit, labelled=False)
    one = Hypothesis(tokens=written, ended=True, log_probability=-1.0, score=-1.0)
    output = GenerationOutput(hypotheses=[one], log_likelihood=0.0, tokens_known=0)
    assert task.decode(record, fitted, [output], PredictSettings(), tokenizer).text == text


def start(model: Path, task: Generate, *, dropout: float | None = None) -> nn.Module:
    recipe = Recipe(
        data=DataSettings(train=[], model=str(model), dropout=dropout),
        options=GenerateSettings(),
        columns=ColumnSettings(),
        training=TrainSettings(),
        run=RunSettings(out=Path("none")),
    )
    return task.start(recipe).model


def test_empty_lines_are_answered_but_not_learnt(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("the sky\n\nis blue\n")
    lines = [
        [record.line for record in Generate.read([path], ColumnSettings(), labelled=labelled)]
        for labelled in (True, False)
    ]
    assert lines == [[1, 3], [1, 2, 3]]


def test_two_models_go_on_with_the_dropout_that_is_given(tiny_model: Path, tmp_path: Path) -> None:
    task = Generate(pairs=True)
    start(tiny_model, task).save_pretrained(tmp_path)  # type: ignore[operator]
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    model = start(tmp_path, task, dropout=0.25)
    configs = [part.config for part in model.modules() if isinstance(part, BertModel)]
    rates = [(one.hidden_dropout_prob, one.attention_probs_dropout_prob) for one in configs]
    assert rates == [(0.25, 0.25)] * 2


def test_a_text_to_go_on_from_keeps_its_end(tiny_model: Path) -> None:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    records, fit = Generate.from_texts(["a red apple"]), LengthLimit(max_length=8, long_text="head")
    with pytest.raises(UserError, match="--long-text has no effect here: a text to continue is"):
        list(Generate(pairs=False).encode(records, tokenizer, fit, labelled=False))


@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_drawn_for_a_text_depends_on_it_alone(pairs: bool, tiny_model: Path) -> None:
    task, tokenizer = Generate(pairs=pairs), BertTokenizer.from_pretrained(tiny_model)
    model = start(tiny_model, task).eval()
    records = task.from_texts(["a red apple", "the very very very blue sky", "grass is green"])
    settings = PredictSettings(sample=True, max_new_tokens=6)

    def drawn(*places: int) -> list[tuple[str, ...]]:
        chosen = [records[place] for place in places]
        fit = LengthLimit(max_length=16, long_text="window")
        items = list(task.encode(chosen, tokenizer, fit, labelled=False))
        batch = task.batch([item.pieces[0] for item in items], tokenizer, None)
        outputs = task.run_model(model, batch, settings)
        answers = [
            task.decode(record, item, [output], settings, tokenizer)
            for record, item, output in zip(chosen, items, outputs, strict=True)
        ]
        return [tuple(text.text for text in answer.n_best) for answer in answers]

    together = drawn(0, 1, 2)
    assert drawn(2, 1, 0) == together[::-1]
    assert drawn(1) == together[1:2]


def batch_of(task: Generate, examples: list[Example], tokenizer: BertTokenizer) -> Batch:
    draw = Draw(seed=0, epoch=0, rows=np.arange(len(examples)))
    return task.batch(examples, tokenizer, draw)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_loss_is_the_sum_over_the_tokens_to_write(pairs: bool, tiny_model: Path) -> None:
    task, tokenizer = Generate(pairs=pairs), BertTokenizer.from_pretrained(tiny_model)
    model = start(tiny_model, task).double().eval()
    rows = [([2, 7, 8, 3], [9, 10, 3]), ([2, 5, 3], [6, 3])]
    examples = [
        Example(ids=np.array(ids, np.int32), labels=tuple(map(float, labels if pairs else ids)))
        for ids, labels in rows
    ]
    batch = batch_of(task, examples, tokenizer)
    # Each text by itself, as the model's own mean over its tokens.
    means = []
    for ids, labels in rows:
        output = model(torch.tensor([ids]), labels=torch.tensor([labels if pairs else ids]))
        means.append((output.loss, len(labels) if pairs else len(ids) - 1))
    assert task.loss_divisor(batch) == sum(count for _, count in means) == 5
    total = sum(mean * count for mean, count in means)
    torch.testing.assert_close(task.loss(model, batch), total, rtol=1e-10, atol=0)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_batch_with_nothing_to_write_has_no_loss(pairs: bool, tiny_model: Path) -> None:
    task, tokenizer = Generate(pairs=pairs), BertTokenizer.from_pretrained(tiny_model)
    model = start(tiny_model, task)
    example = Example(ids=np.array([2], np.int32), labels=() if pairs else (2.0,))
    batch = batch_of(task, [example, example], tokenizer)
    assert task.loss_divisor(batch) == 0
    loss = task.loss(model, batch)
    loss.backward()
    assert loss == 0
