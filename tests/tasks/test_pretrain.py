"""Pre-training from the command line on a small language, and its wrong input."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.alike import assert_same_scores
from tests.exact import assert_same_bits
from tests.tiny import SPECIAL
from tests.tiny_folders import write_folder

import heedful
from heedful import BertConfig, BertForMaskedLM, BertForPreTraining, BertTokenizer
from heedful.batches import Batch, Draw, Example
from heedful.batches.masking import IGNORED
from heedful.batches.sentence_pairs import NEXT, RANDOM
from heedful.cli import run
from heedful.tasks import corpus as corpus_module
from heedful.tasks.pretrain import Pretrain
from heedful.tokens.vocabulary import Vocabulary
from heedful.training.examples import Examples

Out = pytest.CaptureFixture[str]
THINGS = {"apple": "red", "grass": "green", "sky": "blue"}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide documents of sentences about one thing each."""
    draw = random.Random(0)
    documents = []
    for number in range(30):
        thing, colour = list(THINGS.items())[number % 3]
        sentences = [f"The {thing} is {'very ' * draw.randrange(2)}{colour}." for _ in range(12)]
        documents.append("\n".join(sentences))
    path = tmp_path_factory.mktemp("books") / "books.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="module")
def words(books: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a vocabulary of the words in `books`."""
    out = tmp_path_factory.mktemp("words") / "words"
    assert run(["vocabulary", str(books), "--size", "60", "--out", str(out)]) == 0
    return out


def train(books: Path, out: Path, *more: str | Path) -> int:
    words = ["train", "pretrain", "--train", books, "--out", out, "--precision", "fp32"]
    words += ["--max-length", "24", "--dropout", "0"]
    return run([str(word) for word in [*words, *more]])


def test_train_evaluate_predict_and_score(
    books: Path, words: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    fresh = ["--preset", "tiny", "--vocabulary", str(words), "--learning-rate", "3e-3"]
    fresh += ["--steps", "40", "--dev", str(books), "--batch-size", "16"]
    assert train(books, out, *fresh) == 0, capsys.readouterr().err
    assert "30 documents of" in capsys.readouterr().err
    assert run(["evaluate", str(out), "--data", str(books)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["masked_accuracy"] > 0.25  # of the six tokens of a sentence each is a fifth
    assert 0.4 < scores["nsp_accuracy"] < 1
    assert 1 < scores["perplexity"] < 12  # of some 20 tokens
    assert_same_scores(scores, json.loads((out / "metrics.json").read_text()))
    assert json.loads((out / "config.json").read_text())["max_position_embeddings"] == 24
    assert not (out / "corpus").exists()
    assert r"Predicts masked words" in (out / "MODEL_CARD.md").read_text()

    fill = heedful.load(out)
    answer = fill("The [MASK] is very [MASK].")
    assert answer.text.startswith("The ")
    assert [(blank.start, blank.end) for blank in answer.blanks] == [(4, 10), (19, 25)]
    assert run(["predict", str(out), "the [MASK] is red.", "--plain"]) == 0
    assert capsys.readouterr().out == fill("the [MASK] is red.").text + "\n"
    assert run(["predict", str(out), "the [MASK] is red.", "--top", "2"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert [len(mask["candidates"]) for mask in row["masks"]] == [2]
    assert row["tokens_total"] == row["tokens_used"] == 5
    assert 0 < fill(("the sky is blue.", "the sky is blue.")).next_sentence < 1

    assert run(["score", str(out), "the sky is blue.", "red red red red."]) == 0
    right, wrong = map(json.loads, capsys.readouterr().out.splitlines())
    assert right["log_likelihood"] > wrong["log_likelihood"] + 1
    assert right["tokens_total"] == wrong["tokens_used"] == 5


def test_going_on_from_a_model_with_masked_words_alone(
    tiny_model: Path, books: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    more = ["--model", str(tiny_model), "--objective", "mlm", "--steps", "4", "--masking", "word"]
    assert train(books, out, *more, "--documents", "file", "--max-predictions", "3") == 0
    assert run(["evaluate", str(out), "--data", str(books)]) == 0
    assert "nsp_accuracy" not in json.loads(capsys.readouterr().out)
    assert isinstance(heedful.load(out).model, BertForMaskedLM)
    again = tmp_path / "again"
    assert train(books, again, "--model", str(out), "--objective", "mlm", "--steps", "1") == 0
    assert "fresh weights" not in capsys.readouterr().err


def test_a_model_from_scratch_may_know_distances(books: Path, words: Path, tmp_path: Path) -> None:
    fresh = ["--preset", "tiny", "--vocabulary", words, "--position-type", "relative_key"]
    assert train(books, tmp_path / "run", *fresh, "--steps", "2") == 0
    model = heedful.BertForPreTraining.from_pretrained(tmp_path / "run")
    assert model.config.position_embedding_type == "relative_key"
    assert heedful.load(tmp_path / "run")("the [MASK] is red.").text.endswith(" is red.")


@pytest.mark.parametrize("bytes_", [True, False], ids=["bytes", "pieces"])
def test_a_roberta_from_scratch(
    bytes_: bool, books: Path, words: Path, tmp_path: Path, capsys: Out
) -> None:
    vocabulary = tmp_path / "bytes" if bytes_ else words
    if bytes_:
        tiny.byte_level_tokenizer().save_pretrained(vocabulary)
    fresh = ["--arch", "roberta", "--preset", "tiny", "--vocabulary", vocabulary]
    fresh += ["--objective", "mlm", "--steps", "2"]
    assert train(books, tmp_path / "run", *fresh) == 0, capsys.readouterr().err
    fill = heedful.load(tmp_path / "run")
    assert isinstance(fill.model, heedful.RobertaForMaskedLM)
    config, tokenizer = fill.model.config, fill.tokenizer
    assert config.pad_token_id == tokenizer.pad_token_id == int(bytes_)
    assert (config.bos_token_id, config.eos_token_id) == (
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
    )
    assert config.max_position_embeddings == 24 + config.pad_token_id + 1
    assert fill.max_length == fill.model.max_positions == 24
    assert config.type_vocab_size == 1
    assert len(fill(f"the {tokenizer.mask_token} is red.").blanks) == 1
    hint = f'"The cat sat on the {tokenizer.mask_token}."'
    assert hint in capsys.readouterr().err
    assert hint in (tmp_path / "run" / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_the_order_of_sentences_is_learnt(words: Path, tmp_path: Path, capsys: Out) -> None:
    # Each text tells of an apple first and of the sky last: the order can be seen.
    text = tmp_path / "text.txt"
    first, last = "the apple is very red.", "the sky is very blue."
    text.write_text("\n\n".join([f"{first}\n{last}"] * 40))
    fresh = ["--preset", "tiny", "--vocabulary", words, "--learning-rate", "3e-3"]
    fresh += ["--steps", "40", "--batch-size", "16", "--objective", "sop", "--masking", "n-gram"]
    fresh += ["--sentences", "line"]
    out = tmp_path / "run"
    assert train(text, out, *fresh) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["evaluate", str(out), "--data", str(text)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["sop_accuracy"] > 0.9
    assert scores["masked_accuracy"] > 0.25
    assert "nsp_accuracy" not in scores
    ask = heedful.load(out)
    right, wrong = (ask(pair).next_sentence for pair in ((first, last), (last, first)))
    assert right > 0.8
    assert wrong < 0.2
    assert len(ask("the [MASK] is red.").blanks) == 1
    assert "and whether two texts are in order" in (out / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize("more", [[], ["--stream"]], ids=["whole", "stream"])
def test_documents_of_one_token_make_no_pair(
    more: list[str], words: Path, tmp_path: Path, capsys: Out
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the\n\napple\n\nred")
    fresh = ["--preset", "tiny", "--vocabulary", words, "--objective", "sop", "--steps", "2", *more]
    assert train(text, tmp_path / "run", *fresh) == 2
    assert "no document has two tokens to make a pair of" in capsys.readouterr().err


@pytest.mark.parametrize("marked", [True, False], ids=["marks", "list"])
def test_entities_are_masked_whole(
    marked: bool, tiny_model: Path, tmp_path: Path, capsys: Out
) -> None:
    text, names, out = (tmp_path / name for name in ("text.txt", "names.txt", "run"))
    sentence = "the [[red apple]] is very blue." if marked else "the red apple is very blue."
    text.write_text("\n\n".join([sentence] * 20))
    names.write_text("red apple\n日本\n", encoding="utf-8")
    more = ["--model", tiny_model, "--objective", "mlm", "--steps", "2", "--mask-share", "0.3"]
    more += ["--masking", "entity", *([] if marked else ["--phrases", names])]
    assert train(text, out, *more) == 0, capsys.readouterr().err
    said = capsys.readouterr().err
    assert "20 documents of 140 tokens" in said  # as many as without marks
    left_out = "" if marked else "; 1 with unknown tokens left out"
    assert f"masked as a whole: 1 phrase{left_out}" in said
    task = heedful.load(out).task
    assert task.phrases[0] == "red apple"
    assert task.marked == marked
    assert run(["evaluate", str(out), "--data", str(text)]) == 0
    assert json.loads(capsys.readouterr().out)["masked_tokens"] > 0
    assert "masking entities and phrases" in (out / "MODEL_CARD.md").read_text()


def test_entities_that_are_not_told(books: Path, tmp_path: Path, capsys: Out) -> None:
    assert train(books, tmp_path / "run", "--masking", "entity") == 2
    assert "no phrase is marked; write [[a phrase]]" in capsys.readouterr().err
    assert train(books, tmp_path / "run", "--phrases", books) == 2
    assert "--phrases is for --masking entity" in capsys.readouterr().err


def test_an_albert_from_scratch_and_on(books: Path, tmp_path: Path, capsys: Out) -> None:
    write_folder("albert", tmp_path / "words")  # for its tokenizer
    out, on, tagger = (tmp_path / name for name in ("run", "on", "tagger"))
    more = ["--objective", "sop", "--masking", "n-gram", "--steps", "2"]
    fresh = ["--arch", "albert", "--preset", "tiny", "--vocabulary", tmp_path / "words"]
    assert train(books, out, *fresh, *more) == 0, capsys.readouterr().err
    run_ = heedful.load(out)
    assert isinstance(run_.model, heedful.AlbertForPreTraining)
    config = run_.model.config
    assert (config.num_blocks, config.num_hidden_layers, config.embedding_size) == (1, 2, 128)
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 2, 3)
    assert len(run_("the [MASK]y is blue.").blanks) == 1
    assert 0 < run_(("the sky", "is blue.")).next_sentence < 1
    word = heedful.explain(run_, "the [MASK] is blue.", method="gradient-x-input", target="a")
    assert word.attributions[0].target == "'▁a' for mask 1"
    explained = heedful.explain(run_, ("the sky", "is blue."), method="gradient-x-input")
    assert explained.attributions[0].target.startswith("the second text")
    capsys.readouterr()
    assert train(books, on, "--model", out, *more) == 0
    assert "fresh weights" not in capsys.readouterr().err
    rows = [{"text": word, "label": word} for word in ("red", "blue")]
    heedful.train("classify", train=rows, out=tagger, model=str(out), steps=1, batch_size=2)
    assert isinstance(heedful.load(tagger).model, heedful.AlbertForSequenceClassification)
    assert "pooler" not in capsys.readouterr().err  # it has learnt


def test_unfinished_runs_of_before_go_on(tiny_model: Path, books: Path, tmp_path: Path) -> None:
    more = ["--model", tiny_model, "--steps", "2", "--checkpoint-every", "1"]
    more += ["--masking", "word"]
    assert train(books, tmp_path / "run", *more) == 0
    record = json.loads((tmp_path / "run" / "heedful.json").read_text())
    for values in (record["settings"], record["goal"]):
        assert values.pop("masking") == "word"
        values["whole_word"] = True
    del record["settings"]["arch"]
    (tmp_path / "run" / "heedful.json").write_text(json.dumps(record))
    (tmp_path / "run" / "manifest.json").unlink()
    assert train(books, tmp_path / "run", *more, "--resume") == 0
    assert heedful.load(tmp_path / "run").task.masking == "word"


def test_a_stopped_run_goes_on_to_the_same_weights(
    tiny_model: Path, books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    # Epochs of other sequences, and a stop in the second.
    more = ["--model", str(tiny_model), "--steps", "12", "--batch-size", "24"]
    assert train(books, tmp_path / "whole", *more) == 0
    assert "12 steps" in capsys.readouterr().err
    fetch = Examples.fetch
    calls = 0

    def stopping(examples: Examples, items: Any, epoch: int) -> Batch:
        nonlocal calls
        calls += 1
        if calls == 10:
            assert epoch > 0
            raise RuntimeError("killed")
        return fetch(examples, items, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(Examples, "fetch", stopping)
        with pytest.raises(RuntimeError, match="killed"):
            train(books, tmp_path / "cut", *more, "--checkpoint-every", "3")
        assert (tmp_path / "cut" / "corpus").is_dir()  # tokenized once
        patch.setattr(corpus_module, "tokenize_documents", None)
        patch.setattr(Examples, "fetch", fetch)
        assert train(books, tmp_path / "cut", *more, "--resume", "--workers", "3") == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    (tmp_path / "whole" / "corpus").mkdir()  # as of a process that was killed at the very end
    assert train(books, tmp_path / "whole", *more, "--resume") == 0
    assert not (tmp_path / "whole" / "corpus").exists()


def test_a_corpus_is_kept_for_the_next_run(
    tiny_model: Path, books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--model", str(tiny_model), "--steps", "1", "--corpus", str(tmp_path / "kept")]
    assert train(books, tmp_path / "one", *more) == 0
    monkeypatch.setattr(corpus_module, "tokenize_documents", None)
    assert train(books, tmp_path / "two", *more) == 0
    with pytest.raises(TypeError):  # other documents are another corpus
        train(books, tmp_path / "three", *more, "--documents", "line")


# The loss and its batches.

TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL, *(f"w{number}" for number in range(95))]))
SMALL = BertConfig(**{**tiny.SIZES, "vocab_size": 100, "max_position_embeddings": 40})
PAIRS = Pretrain.from_training_data(tiny.recipe("pretrain", objective="mlm+nsp"))
ALONE = replace(PAIRS, objective="mlm")


def pairs(count: int = 6) -> list[Example]:
    draw = np.random.default_rng(0)
    examples = []
    for number in range(count):
        first, second = (draw.integers(5, 100, size) for size in (5 + number, 12 - number))
        ids = np.array([2, *first, 3, *second, 3], dtype=np.int32)
        label = NEXT if number % 2 else RANDOM
        examples.append(Example(ids=ids, split=len(first) + 2, labels=(label,)))
    examples.append(replace(examples[0], ids=examples[0].ids[:-3]))  # so that some are padded
    return examples


def packed() -> list[Example]:
    draw = np.random.default_rng(0)
    rows = [[2, *draw.integers(5, 100, 9), 3, 2, *draw.integers(5, 100, 6), 3] for _ in range(3)]
    rows.append([2, *draw.integers(5, 100, 8), 3])
    return [Example(ids=np.array(row, dtype=np.int32)) for row in rows]


def batch_of(examples: list[Example], task: Pretrain, *, epoch: int = 0) -> Batch:
    draw = Draw(seed=0, epoch=epoch, rows=np.arange(len(examples)))
    return task.batch(examples, TOKENIZER, draw)


@pytest.mark.parametrize("task", [PAIRS, ALONE], ids=["pairs", "alone"])
def test_the_loss_is_the_references(task: Pretrain) -> None:
    import transformers

    torch.manual_seed(0)
    pairs_too = task.objective == "mlm+nsp"
    ours = (BertForPreTraining if pairs_too else BertForMaskedLM)(SMALL).double().eval()
    kind = transformers.BertForPreTraining if pairs_too else transformers.BertForMaskedLM
    theirs = kind(transformers.BertConfig(**ours.config.to_dict())).double().eval()
    theirs.load_state_dict(ours.state_dict(), strict=False)
    batch = batch_of(pairs() if pairs_too else packed(), task)
    labels = torch.full(batch.inputs["input_ids"].shape, IGNORED)
    labels.view(-1)[batch.inputs["positions"]] = batch.targets["tokens"]
    inputs = {**batch.inputs, "attention_mask": batch.inputs["attention_mask"].long()}
    del inputs["positions"]
    if pairs_too:
        inputs["next_sentence_label"] = batch.targets["pairs"]
    expected = theirs(**inputs, labels=labels).loss
    totals, counts = task.loss(ours, batch), task.loss_divisor(batch)
    assert counts.tolist() == [int((labels != IGNORED).sum())] + [len(labels)] * (
        task.objective == "mlm+nsp"
    )
    torch.testing.assert_close((totals / counts).sum(), expected, rtol=1e-12, atol=0)
    (totals / counts).sum().backward()
    expected.backward()
    for name, parameter in theirs.named_parameters():
        if "pooler" in name and not pairs_too:
            continue
        grad = ours.get_parameter(name).grad
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-9, atol=1e-14)


def test_texts_of_a_sequence_know_nothing_of_each_other() -> None:
    torch.manual_seed(0)
    model = BertForMaskedLM(SMALL).eval()
    examples = packed()
    other = [replace(examples[0], ids=examples[0].ids.copy()), *examples[1:]]
    other[0].ids[1:10] = other[0].ids[1:10][::-1]
    batches = [batch_of(examples, ALONE), batch_of(other, ALONE)]
    logits = []
    for batch in batches:
        positions = torch.arange(11, 19)  # the second text of the first sequence
        row = batch.inputs["input_ids"].view(-1)
        row[positions] = batches[0].inputs["input_ids"].view(-1)[positions]
        logits.append(model(**{**batch.inputs, "positions": positions}).logits)
    ids, others = (batch.inputs["input_ids"].tolist() for batch in batches)
    assert ids != others
    torch.testing.assert_close(logits[0], logits[1])


def test_what_is_hidden_changes_with_the_epoch_alone() -> None:
    examples = pairs()
    first, again = batch_of(examples, PAIRS), batch_of(examples, PAIRS)
    later = batch_of(examples, PAIRS, epoch=1)
    ids = first.inputs["input_ids"]
    assert_same_bits(ids, again.inputs["input_ids"], "whole numbers")
    assert ids.tolist() != later.inputs["input_ids"].tolist()
    truth = [example.ids for example in examples]
    width, positions = ids.shape[1], first.inputs["positions"].tolist()
    for position, label in zip(positions, first.targets["tokens"].tolist(), strict=True):
        assert truth[position // width][position % width] == label
    twins = batch_of([examples[1]] * 2, PAIRS)
    one, other = twins.inputs["input_ids"].tolist()
    assert one != other
    # A sequence's draw is that of its place in the data, whatever batch it stands in.
    draw = Draw(seed=0, epoch=0, rows=np.array([3, 1]))
    some = PAIRS.batch([examples[3], examples[1]], TOKENIZER, draw)
    size = len(truth[1])
    assert_same_bits(some.inputs["input_ids"][1, :size], ids[1, :size], "whole numbers")


def test_accumulation_gives_the_gradient_of_the_whole_batch(
    books: Path, tiny_model: Path, tmp_path: Path
) -> None:
    more = ["--model", str(tiny_model), "--steps", "2", "--batch-size", "30", "--clip", "0"]
    assert train(books, tmp_path / "one", *more) == 0
    assert train(books, tmp_path / "many", *more, "--batch-tokens", "80") == 0
    one, many = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").open()]
        for name in ("one", "many")
    )
    tokens = len(BertTokenizer.from_pretrained(tiny_model))
    assert one[0]["loss"] == pytest.approx(math.log(tokens) + math.log(2), abs=0.1)  # two means
    for a, b in zip(one, many, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)


# Wrong input.


def error_of(capsys: Out) -> str:
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0, error
    return error


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--documents", "file"], "only one document, but sentence pairs need at least two"),
        (["--preset", "tiny"], "--preset starts a model from scratch with the words of --vocab"),
        (["--vocabulary", "x"], "--preset starts a model from scratch with the words of --vocab"),
        (["--positions", "64"], "--positions is for a model from scratch: give --preset too"),
        (
            ["--position-type", "relative_key"],
            "--position-type is for a model from scratch: give --preset too",
        ),
        (["--shuffle-buffer", "9"], "--shuffle-buffer is for --stream; give that too"),
        (["--open-shards", "2"], "--open-shards is for --stream; give that too"),
        (["--mask-share", "0"], "--mask-share 0.0: must be from 0.001 to 1"),
        (["--max-predictions", "0"], "--max-predictions 0: must be a whole number of at least 1"),
        (["--arch", "roberta"], "--arch roberta is for a model from scratch: give --preset too"),
        (
            ["--arch", "robert", "--preset", "tiny", "--vocabulary", "words"],
            "unknown --arch 'robert' (did you mean 'roberta'?)",
        ),
        (
            ["--preset", "bas", "--vocabulary", "words"],
            "unknown --preset of --arch bert 'bas' (did you mean 'base'?)",
        ),
        (
            [
                *("--arch", "gpt2", "--preset", "tiny", "--vocabulary", "words"),
                *("--objective", "mlm+nsp"),
            ],
            "--arch gpt2: its models have no head for pairs of texts; give --objective clm",
        ),
        (
            [
                *("--arch", "roberta", "--preset", "tiny", "--vocabulary", "words"),
                *("--objective", "mlm+nsp"),
            ],
            "--arch roberta: its models have no head for pairs of texts; give --objective mlm",
        ),
        (["--prune", "0.5"], "--prune is for a run of the same task"),
        (["--fresh-pooler"], "--fresh-pooler is for fine-tuning;"),
        (["--long-text", "head"], "--long-text has no effect, because pre-training reads all"),
        (["--metric", "accuracy", "--dev", __file__], "unknown --metric 'accuracy'"),
        (["--documents", "page"], "documents"),
        (
            ["--preset", "tiny", "--vocabulary", "words", "--model", "x"],
            "give --preset to start from scratch, or --model x to start from that model, not both",
        ),
        (["--preset", "tiny", "--vocabulary", "gone"], "--vocabulary: no model 'gone': give a"),
    ],
)
def test_wrong_settings_are_named(
    tiny_model: Path,
    books: Path,
    words: Path,
    tmp_path: Path,
    capsys: Out,
    more: list[str],
    message: str,
) -> None:
    more = [str(words) if word == "words" else word for word in more]
    start = [] if "--vocabulary" in more or "--preset" in more else ["--model", str(tiny_model)]
    assert train(books, tmp_path / "run", *start, *more) == 2
    assert message in error_of(capsys)
    assert not (tmp_path / "run").exists()


def test_lengths_that_fit_no_model_are_named(
    books: Path, words: Path, tmp_path: Path, capsys: Out
) -> None:
    start = ["train", "pretrain", "--train", str(books), "--out", str(tmp_path / "run")]
    start += ["--preset", "tiny", "--vocabulary", str(words)]
    assert run([*start, "--max-length", "7"]) == 2
    assert "--max-length 7: must be a whole number of at least 8" in error_of(capsys)
    assert run([*start, "--positions", "64", "--max-length", "65"]) == 2
    assert "this model has 64 positions; give a length from 8 to 64" in error_of(capsys)


def test_wrong_texts_are_named(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    more = ["--model", str(tiny_model)]
    text = tmp_path / "a.txt"
    text.write_text("")
    assert train(text, tmp_path / "run", *more) == 2
    assert error_of(capsys).endswith("a.txt: holds no text")
    text.write_text("東京\n\n大阪\n")
    assert train(text, tmp_path / "run", *more) == 2
    assert "a.txt: the vocabulary has none of its words" in error_of(capsys)
    one = tmp_path / "one.txt"
    one.write_text("the sky is blue.\n")
    text.write_text("the sky is blue.\n\nthe apple is red.\n")
    assert train(text, tmp_path / "other", *more, "--dev", one) == 2
    assert "one.txt: only one document" in error_of(capsys)


def test_what_may_be_wrong_with_a_text_is_told(
    tiny_model: Path, books: Path, tmp_path: Path, capsys: Out
) -> None:
    more = ["--model", str(tiny_model), "--steps", "1"]
    assert train(books, tmp_path / "right", *more) == 0
    told = capsys.readouterr().err
    assert "unknown" not in told
    assert "random second part" not in told
    text = tmp_path / "a.txt"
    text.write_text("the sky is blue\n\n東京 is red\n\n" * 20)
    assert train(text, tmp_path / "wrong", *more) == 0
    told = capsys.readouterr().err
    assert "40 documents of 160 tokens, 25% of them unknown to the vocabulary" in told
    assert "100% of the pairs have a random second part" in told


def test_a_vocabulary_without_a_mask_is_named(
    tiny_model: Path, books: Path, tmp_path: Path, capsys: Out
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in tiny_model.iterdir():
        text = file.read_bytes()
        (folder / file.name).write_bytes(text.replace(b"[MASK]\n", b"mask\n"))
    assert train(books, tmp_path / "run", "--model", folder) == 2
    assert "there is no [MASK] in the vocabulary" in error_of(capsys)


def test_wrong_questions_are_named(
    tiny_model: Path, books: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "run"
    more = ["--model", str(tiny_model), "--objective", "mlm", "--steps", "1"]
    assert train(books, out, *more) == 0
    capsys.readouterr()
    for arguments, message in [
        (["predict", "the sky"], "text, line 1: no [MASK] in the text"),
        (["predict", "the [mask]"], "'[mask]' is not a mask; write [MASK]"),
        (["predict", "--input", colours, "--text-pair", "label"], "line 2: a pair, but this run"),
        (["evaluate", "--data", books, "--text", "a"], "plain text has no columns"),
        (["score", ""], "text, line 1: empty; there is nothing to score"),
        (["score", "a", "--n-best", "x.jsonl"], "give --n-best, or texts or --input, not both"),
    ]:
        verb, *rest = map(str, arguments)
        assert run([verb, str(out), *rest]) == 2
        assert message in error_of(capsys)
