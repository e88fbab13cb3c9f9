"""Translation from the command line: pairs of texts in, translations out."""

import io
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits

import heedful
from heedful.cli import run
from heedful.decoding.sampling import sample
from heedful.errors import UserError
from heedful.files import read_tensors
from heedful.reading import Record
from heedful.reading.parallel import read_pairs
from heedful.settings import ColumnSettings, PredictSettings
from heedful.settings.ranges import LongText
from heedful.task import LengthLimit
from heedful.tasks.translate import Translate
from heedful.tokens import TextTokenizer, TranslationTokenizer
from heedful.tokens.text import BYTES

Out = pytest.CaptureFixture[str]

NOUNS = {"Hund": "dog", "Mann": "man", "Vogel": "bird", "Fisch": "fish"}
VERBS = {"schläft": "sleeps", "läuft": "runs", "singt": "sings"}
ENGLISH = {"": "", " hier": " here"}
PAIRS = [
    (f"Der {noun} {verb}{end}.", f"The {NOUNS[noun]} {VERBS[verb]}{ENGLISH[end]}.")
    for noun, verb, end in product(NOUNS, VERBS, ENGLISH)
]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write pairs as two files."""
    paths = folder / f"{name}.de", folder / f"{name}.en"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def train(out: Path, *words: object) -> int:
    options = ["--preset", "tiny", "--vocab-size", "420", "--precision", "fp32", "--out", out]
    return run([str(word) for word in ["train", "translate", *words, *options]])


LEARN = ["--batch-size", "8", "--dropout", "0", "--label-smoothing", "0", "--epochs", "40"]
LEARN += ["--learning-rate", "2e-3", "--seed", "1"]


@pytest.fixture(scope="module", params=["transformer", "rnn"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translate")
    files = write(folder, "train", PAIRS)
    assert train(folder / "run", "--train", *files, "--arch", request.param, *LEARN) == 0
    return folder / "run"


def answers(capsys: Out, *words: object) -> list[dict[str, Any]]:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_train_evaluate_predict(trained: Path, tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "test", PAIRS)
    (scores,) = answers(capsys, "evaluate", trained, "--data", *files)
    assert scores["bleu"] == pytest.approx(100)
    assert scores["bleu_lowercase"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100)
    assert scores["perplexity"] < 1.2
    assert "case:mixed" in scores["signatures"]["bleu"]
    assert "case:lc" in scores["signatures"]["bleu_lowercase"]
    assert scores["items"] == len(PAIRS)
    assert scores["tokens_per_second"] > 0
    assert scores["beam"] == 4
    (row,) = answers(capsys, "predict", trained, "Der Hund läuft hier.", "--all-scores")
    assert row["text"] == "The dog runs here."
    assert row["tokens_total"] == row["tokens_used"] == 5
    assert row["n_best"][0]["text"] == row["text"]
    assert [one["score"] for one in row["n_best"]] == sorted(
        (one["score"] for one in row["n_best"]), reverse=True
    )
    # A translation does not depend on its neighbours.
    predict = heedful.load(trained, beam=1, precision="fp32")
    together = [one.text for one in predict([text for text, _ in PAIRS])]
    assert together == [predict(text).text for text, _ in PAIRS]


def test_as_many_lines_come_out_as_go_in(
    trained: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = b"Der Hund singt.\n\n   \r\nDer Mann singt.\r\nDer Fisch singt."
    wanted = "The dog sings.\n\n\nThe man sings.\nThe fish sings.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert run(["predict", str(trained), "--plain"]) == 0
    assert capsys.readouterr().out == wanted
    (tmp_path / "in.de").write_bytes(given)
    assert run(["predict", str(trained), "--plain", "--input", str(tmp_path / "in.de")]) == 0
    assert capsys.readouterr().out == wanted
    assert [one.text for one in heedful.load(trained)(["", "Der Mann singt."])] == [
        "",
        "The man sings.",
    ]


def test_how_likely_a_translation_is_is_told_where_it_can_be(
    trained: Path, tmp_path: Path, capsys: Out
) -> None:
    pairs = PAIRS[:4]
    long = " ".join(text for text, _ in PAIRS), " ".join(text for _, text in PAIRS)
    some = heedful.evaluate(trained, [*write(tmp_path, "some", pairs)])
    assert "likelihood_items" not in some
    odd = [(long[0], pairs[0][1]), (pairs[0][0], long[1])]
    scores = heedful.evaluate(trained, [*write(tmp_path, "odd", [odd[0], *pairs, odd[1]])])
    assert (scores["items"], scores["likelihood_items"]) == (6, 4)
    assert scores["perplexity"] == pytest.approx(some["perplexity"], rel=1e-4)
    scores = heedful.evaluate(trained, [*write(tmp_path, "only", odd)])
    assert scores["likelihood_items"] == 0
    assert "bleu" in scores
    assert "perplexity" not in scores
    data = ["--data", str(tmp_path / "only.de"), str(tmp_path / "only.en")]
    assert run(["explain", str(trained), "--heads", *data]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("heedful: --heads: ")
    assert "no item of the data can be scored" in error or "cannot be masked" in error
    whole, parts = (
        heedful.report(trained, [tmp_path / f"{name}.de", tmp_path / f"{name}.en"]).html
        for name in ("some", "only")
    )
    assert "perplexity" in whole
    assert "perplexity" not in parts


def test_long_lines_are_translated_sentence_by_sentence(trained: Path, capsys: Out) -> None:
    long = " ".join(text for text, _ in PAIRS * 8)
    predict = heedful.load(trained)
    assert predict.max_length == 8  # the longest text that it learnt from, and an end, at least 8
    answer = predict(long)
    assert answer.text == " ".join(text for _, text in PAIRS * 8)
    assert answer.tokens_used == answer.tokens_total == len(long.split()) + len(PAIRS) * 8
    # What holds no end of a sentence is cut between words.
    words = "Der Hund läuft hier Der Hund läuft hier"
    assert predict(words).tokens_used == 8
    assert run(["predict", str(trained), long, "--long-text", "refuse"]) == 2
    error = capsys.readouterr().err
    assert "text, line 1: 864 tokens; this run reads 7 at once" in error
    assert "--long-text window" in error
    assert run(["predict", str(trained), long, "--long-text", "head"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["tokens_used"] == 7
    assert "1 text was too long and truncated; see --long-text" in captured.err


def parts(text: str, room: int) -> list[str]:
    """Cut a text as a run with this maximum length does; words and punctuation are tokens."""
    words = ["▁A", "▁b", "▁c", "▁", "?", "x"]
    side = TextTokenizer(["</s>", "<unk>", *BYTES, *words, "<pad>"])
    tokenizer, fit = (
        TranslationTokenizer(side, side),
        LengthLimit(max_length=room + 1, long_text="window"),
    )
    task, records = Translate(longest=9), Translate.from_texts([text])
    (fitted,) = task.encode(records, tokenizer, fit, labelled=False)
    assert fitted.tokens_used == fitted.tokens_total == len(side.encode_batch([text])[0])
    assert all(piece.ids[-1] == side.eos_token_id for piece in fitted.pieces)
    assert all(1 < len(piece.ids) <= room + 1 for piece in fitted.pieces)
    return [side.decode(piece.ids[:-1].tolist()) for piece in fitted.pieces]


def test_a_long_text_is_cut_at_the_ends_of_sentences_and_of_words() -> None:
    text = "A b? A c? A b c b c? A?"
    assert parts(text, 14) == [text]
    assert parts(text, 13) == ["A b? A c? A b c b c?", "A?"]  # as many sentences as fit
    assert parts(text, 6) == ["A b? A c?", "A b c b c?", "A?"]
    assert parts(text, 4) == ["A b?", "A c?", "A b c b", "c?", "A?"]
    assert parts("A bxxxxx c", 3) == ["A", "bxx", "xxx", "c"]  # a word alone that does not fit
    # Sentences that no space parts stay together.
    assert parts("b。xx。 b。 b。", 10) == ["b。xx。", "b。 b。"]
    assert parts("A é💧💧é c", 6) == ["A", "é", "💧", "💧é", "c"]  # never inside a character
    assert parts("", 3) == parts("  ", 3) == []


@pytest.mark.parametrize("rule", ["window", "head", "head-tail", "refuse"])
def test_nothing_of_a_blank_text_is_cut(trained: Path, rule: LongText) -> None:
    answer = heedful.load(trained, long_text=rule)("   ")
    assert (answer.text, answer.tokens_used) == ("", answer.tokens_total)


def test_as_many_samples_as_asked(trained: Path, capsys: Out) -> None:
    words = ["predict", trained, "Der Hund läuft.", "--all-scores", "--sample"]
    (row,) = answers(capsys, *words, "--top", "3", "--temperature", "3")
    assert len(row["n_best"]) == 3
    assert len({one["text"] for one in row["n_best"]}) > 1  # each is drawn by itself
    (row,) = answers(capsys, *words, "--top", "1")
    assert len(row["n_best"]) == 1


def test_one_sample_is_drawn_if_one_is_shown(
    trained: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    def counting(step: Any, state: Any, first: Any, options: Any, *more: Any) -> Any:
        drawn.append(options.num_return_sequences)
        return sample(step, state, first, options, *more)

    monkeypatch.setattr(sys.modules["heedful.decoding.search"], "sample", counting)
    words = ["predict", trained, "Der Hund läuft.", "--sample", "--temperature", "3"]
    (one,), (several,) = answers(capsys, *words), answers(capsys, *words, "--all-scores")
    assert several["n_best"][0]["text"] == one["text"]
    assert run([*map(str, words), "--top", "3"]) == 2
    assert "--top is for the texts of --all-scores" in capsys.readouterr().err
    files = write(tmp_path, "few", PAIRS[:2])
    answers(capsys, "evaluate", trained, "--data", *files, "--sample")
    assert set(drawn[:1] + drawn[2:]) == {1}
    assert drawn[1] == 5


def test_an_end_token_counts_if_it_is_generated(trained: Path) -> None:
    whole, cut = (heedful.load(trained, max_new_tokens=most)(PAIRS[0][0]) for most in (None, 2))
    assert whole.n_best[0].ended
    assert whole.tokens_generated == len(PAIRS[0][1].replace(".", " .").split()) + 1
    assert not cut.n_best[0].ended
    assert cut.tokens_generated == 2


def test_what_a_translation_begins_with(trained: Path, tmp_path: Path, capsys: Out) -> None:
    (row,) = answers(capsys, "predict", trained, "Der Hund läuft.", "--prefix", "The fish")
    assert row["text"].startswith("The fish")
    predict = heedful.load(trained)
    texts = [("Der Hund läuft.", "The bird"), ("Der Mann singt.", "")]
    assert predict(texts)[0].text.startswith("The bird")
    assert predict(texts)[1].text == "The man sings."
    assert run(["predict", str(trained), "Der Hund.", "--prefix", "The man " * 90]) == 2
    problem = "the beginning of the translation has 181 tokens, but at most 9 are generated"
    assert f"text, line 1: {problem}" in capsys.readouterr().err
    table = tmp_path / "texts.tsv"
    table.write_text(f"text\tpre\nDer Hund.\tThe\nDer Mann.\t{'The man ' * 90}\n")
    columns = ["--input", str(table), "--text-pair", "pre"]
    assert run(["predict", str(trained), *columns]) == 2
    assert f"{table}, line 3: {problem}" in capsys.readouterr().err


def test_chinese_words_are_linked_whole(trained: Path) -> None:
    with pytest.raises(UserError, match="--whole-words says how words are aligned"):
        PredictSettings(whole_words=True)
    pytest.importorskip("jieba", reason="needs jieba, of the extra chinese")
    text = "我来到北京大学, Vogel"
    words = []
    for whole in (False, True):
        links = heedful.load(trained, alignments=True, whole_words=whole)(text).links
        assert links is not None
        words.append([text[start:end] for start, end in links.source_words])
    assert words == [[*"我来到北京大学,", "Vogel"], ["我", "来到", "北京大学", ",", "Vogel"]]


def test_words_are_linked(trained: Path, capsys: Out) -> None:
    text = "Der Vogel schläft hier."
    (row,) = answers(capsys, "predict", trained, text, "--alignments")
    read = [text[start:end] for start, end in row["source_words"]]
    written = [row["text"][start:end] for start, end in row["target_words"]]
    assert read == ["Der", "Vogel", "schläft", "hier", "."]
    assert written == ["The", "bird", "sleeps", "here", "."]
    assert [target for _, target in row["alignments"]] == [0, 1, 2, 3, 4]
    assert all(0 <= source < 5 for source, _ in row["alignments"])
    # The words of a part are linked to that part's, and places count from the start of the whole.
    long = " ".join(text for text, _ in PAIRS[:1] * 3 + PAIRS)
    links = heedful.load(trained, alignments=True)(long).links
    assert links is not None
    ends = [number for number, (start, _) in enumerate(links.source_words) if long[start] == "."]
    sentence = [sum(end < number for end in ends) for number in range(len(links.source_words))]
    linked = [sentence[source] for source, _ in links.links]
    assert linked == sorted(linked)
    assert linked[-1] == len(PAIRS) + 2


def test_swapped_files_are_noticed(trained: Path, tmp_path: Path, capsys: Out) -> None:
    source, target = write(tmp_path, "test", PAIRS * 3)
    assert run(["evaluate", str(trained), "--data", str(target), str(source)]) == 0
    assert "are the files, or the columns, swapped?" in capsys.readouterr().err
    assert run(["evaluate", str(trained), "--data", str(source), str(target)]) == 0
    assert "swapped" not in capsys.readouterr().err


def test_a_table_and_two_vocabularies(tmp_path: Path, capsys: Out) -> None:
    path, out = tmp_path / "pairs.tsv", tmp_path / "run"
    path.write_text("de\ten\n" + "".join(f"{one}\t{other}\n" for one, other in PAIRS))
    columns = ["--text", "de", "--label", "en"]
    words = ["--train", path, "--dev", path, *columns, "--separate-vocabularies", "--steps", "2"]
    assert train(out, *words, "--pre-norm", "--metric", "chrf") == 0, capsys.readouterr().err
    assert (out / "target_vocab.json").is_file()
    assert not (out / "vocabulary").exists()
    log = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert "chrf" in log[-1]["dev"]
    (scores,) = answers(capsys, "evaluate", out, "--data", path, *columns)
    assert scores["items"] == len(PAIRS)


def test_a_run_goes_on_from_another(trained: Path, tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "train", PAIRS)
    words = ["train", "translate", "--train", *files, "--model", trained, "--steps", "1"]
    words += ["--learning-rate", "1e-5", "--out", tmp_path / "more"]
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    assert heedful.load(tmp_path / "more")("Der Hund läuft.").text == "The dog runs."
    words[-1] = tmp_path / "other"
    assert run([str(word) for word in [*words, "--preset", "base"]]) == 2
    assert "--preset is for a model from scratch" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["run", "export", "model"])
def test_short_pairs_leave_the_limits_of_the_base_run(
    trained: Path, tmp_path: Path, capsys: Out, kind: str
) -> None:
    files, base = write(tmp_path, "short", [("Hund", "dog"), ("Mann", "man")]), trained
    before = json.loads((trained / "heedful.json").read_text())
    limits = before["goal"]["longest"], before["max_length"]
    if kind != "run" and not (trained / "config.json").read_text().count("MarianMTModel"):
        pytest.skip("no other program has recurrent translators")
    if kind != "run":
        base = tmp_path / "marian"
        assert run(["export", str(trained), "--to", str(base), "--format", "marian"]) == 0
    if kind == "model":
        (base / "heedful_export.json").unlink()
        config = json.loads((base / "config.json").read_text())
        limits = limits[0], config["max_position_embeddings"]
    words = ["train", "translate", "--train", *files, "--model", base, "--steps", "1"]
    assert run([str(word) for word in [*words, "--out", tmp_path / "more"]]) == 0
    after = json.loads((tmp_path / "more" / "heedful.json").read_text())
    assert (after["goal"]["longest"], after["max_length"]) == limits
    words += ["--max-length", "100", "--out", tmp_path / "long"]
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    after = json.loads((tmp_path / "long" / "heedful.json").read_text())
    assert (after["goal"]["longest"], after["max_length"]) == (
        max(limits[0], 100),
        max(limits[1], 100),
    )


def test_bleu_follows_the_script_that_is_written(tmp_path: Path, capsys: Out) -> None:
    pairs = [
        (source, f"{noun}在这里。") for (source, _), noun in zip(PAIRS, "狗人鸟鱼" * 6, strict=True)
    ]
    files = write(tmp_path, "zh", pairs)
    out = tmp_path / "run"
    words = ["--train", *files, "--arch", "rnn", "--steps", "1", "--batch-size", "4"]
    assert train(out, *words) == 0, capsys.readouterr().err
    few = write(tmp_path, "few", pairs[:3])
    scoring = ["evaluate", out, "--data", *few, "--max-new-tokens", "4"]
    (scores,) = answers(capsys, *scoring)
    assert "|tok:zh|" in scores["signatures"]["bleu"]
    (scores,) = answers(capsys, *scoring, "--bleu-tokenize", "char")
    assert "|tok:char|" in scores["signatures"]["bleu"]
    options: Any = {"bleu_tokenize": "char", "max_new_tokens": 4}
    same = heedful.compare(out, out, few, **options)
    assert same.scores["bleu"].first == pytest.approx(scores["bleu"])
    observed = heedful.report(out, few, **options)
    assert "tok:char" in observed.html
    with pytest.raises(ValueError, match="bleu_tokenize"):
        heedful.evaluate(out, few, bleu_tokenize="Char")  # type: ignore[arg-type]


def test_pairs_that_are_dropped_are_counted(tmp_path: Path, capsys: Out) -> None:
    extra = [("", "Nothing."), ("Der Hund " * 80, "The dog " * 80), ("Ja", "The man " * 9)]
    files = write(tmp_path, "train", [*PAIRS, *extra])
    assert train(tmp_path / "run", "--train", *files, "--steps", "1") == 0
    error = capsys.readouterr().err
    assert "dropped 3 of 27 pairs: 1 empty on a side (the first: " in error
    assert "train.en, line 25), 1 longer than 128 tokens" in error
    assert "24 examples" in error


def test_a_killed_run_goes_on_exactly(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write(tmp_path, "train", PAIRS)
    options = ["--train", *files, "--steps", "6", "--checkpoint-every", "2", "--batch-size", "9"]
    options += ["--dev", *files]
    assert train(tmp_path / "once", *options) == 0
    out = tmp_path / "twice"
    assert train(out, *options, "--max-minutes", "1e-9") == 0
    (out / "manifest.json").unlink()  # as if killed before its end was written
    assert train(out, *options, "--resume") == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "twice")]
    assert weights[0] == weights[1]
    records = [
        json.loads((tmp_path / name / "heedful.json").read_text()) for name in ("once", "twice")
    ]
    assert records[0]["goal"] == records[1]["goal"]


def test_recomputing_learns_the_same(tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "train", PAIRS)
    options = ["--train", *files, "--steps", "3", "--batch-size", "9"]
    weights = []
    for name in ("kept", "recomputed"):
        out = tmp_path / name
        more = ["--gradient-checkpointing"] if name == "recomputed" else []
        assert train(out, *options, *more) == 0
        weights.append(read_tensors(out / "model.safetensors"))
    torch.testing.assert_close(*weights)
    assert train(tmp_path / "rnn", *options, "--arch", "rnn") == 0
    model = ["--model", tmp_path / "rnn", "--out", tmp_path / "more", "--gradient-checkpointing"]
    words = ["train", "translate", *options, *model]
    assert run([str(word) for word in words]) == 2
    assert "--gradient-checkpointing is for a Transformer" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


def test_heads_are_pruned_and_a_resumed_run_loses_the_same(tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "train", PAIRS)
    assert train(tmp_path / "whole", "--train", *files, *LEARN) == 0
    options = ["--train", *files, "--model", tmp_path / "whole", "--precision", "fp32"]
    options += ["--batch-size", "8", "--steps", "30", "--prune", "0.25", "--learning-rate", "1e-3"]
    options += ["--dropout", "0"]

    def prune(out: Path, *more: str) -> int:
        return run([str(word) for word in ["train", "translate", *options, "--out", out, *more]])

    capsys.readouterr()
    assert prune(tmp_path / "once") == 0
    assert "pruned the 6 of 24 heads that matter least" in capsys.readouterr().err
    config = json.loads((tmp_path / "once" / "config.json").read_text())
    chosen = json.loads((tmp_path / "once" / "pruned_heads.json").read_text())
    fields = ("pruned_heads", "decoder_pruned_heads", "cross_attn_pruned_heads")
    assert chosen == {field: config[field] for field in fields}
    assert sum(len(heads) for field in fields for heads in config[field].values()) == 6
    (scores,) = answers(capsys, "evaluate", tmp_path / "once", "--data", *files)
    assert scores["bleu"] > 90

    stopped = ["--max-minutes", "1e-9", "--checkpoint-every", "2"]
    assert prune(tmp_path / "twice", *stopped) == 0
    (tmp_path / "twice" / "manifest.json").unlink()  # as if killed before its end was written
    assert prune(tmp_path / "twice", "--resume") == 0
    weights = [read_tensors(tmp_path / name / "model.safetensors") for name in ("once", "twice")]
    assert_same_bits(weights[1], weights[0], "same code")


def test_what_has_no_heads_to_prune(tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "train", PAIRS)
    assert train(tmp_path / "rnn", "--train", *files, "--arch", "rnn", "--steps", "1") == 0
    words = ["train", "translate", "--train", *files, "--steps", "1", "--prune", "0.1"]
    words = [str(word) for word in [*words, "--out", tmp_path / "run"]]
    assert run(words) == 2
    assert "--prune removes heads from a trained run: give --model too" in capsys.readouterr().err
    assert run([*words, "--model", str(tmp_path / "rnn")]) == 2
    assert "and for Transformer translators" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["a", "b", "c"], [], "train.de has 24 lines and other.en 3"),
        (None, ["--vocab-size", "20"], "--vocab-size 20: must be from 300"),
        (None, ["--arch", "rnn", "--pre-norm"], "--pre-norm is for --arch transformer"),
        (None, ["--cell", "lstm"], "--cell lstm is for --arch rnn"),
        (None, ["--max-length", "2"], "--max-length 2: must be from 8"),
        (None, ["--head-learning-rate", "1"], "--head-learning-rate has no effect on a translator"),
        (None, ["--gradient-checkpointing", "--arch", "rnn"], "is for a Transformer: lower"),
        (None, ["--model", "minilm"], "minilm"),
        (None, ["--metric", "accuracy"], "unknown --metric 'accuracy'"),
        (None, ["--revision", "main"], "--revision is for a model from a hub: give --model too"),
        (None, ["--max-ratio", "0.5"], "--max-ratio 0.5: must be 1 or above"),
        (None, ["--label", "en"], "plain files have no columns"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: Out, lines: list[str] | None, options: list[str], message: str
) -> None:
    source, target = write(tmp_path, "train", PAIRS)
    if lines is not None:
        target = tmp_path / "other.en"
        target.write_text("".join(f"{line}\n" for line in lines))
    words = ["train", "translate", "--train", source, target, "--dev", source, target]
    words += ["--out", tmp_path / "run", "--steps", "1", *options]
    assert run([str(word) for word in words]) == 2
    error = capsys.readouterr().err.strip().replace(f"{tmp_path}/", "")
    assert message in error
    assert error.count("\n") == 0
    assert not (tmp_path / "run").exists()


def test_nothing_is_left_to_learn_from(tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "train", [("", "a"), ("b", "")])
    assert train(tmp_path / "run", "--train", *files) == 2
    assert "no pair is left to learn from" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_empty_side_cannot_be_scored(trained: Path, tmp_path: Path, capsys: Out) -> None:
    files = write(tmp_path, "test", [*PAIRS[:3], ("Der Hund.", "")])
    assert run(["evaluate", str(trained), "--data", *map(str, files)]) == 2
    assert "test.en, line 4: the translation is empty" in capsys.readouterr().err


def test_lines_that_are_blank_on_both_sides_are_not_scored(
    trained: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "skipped 2 pairs, empty on both sides (the first: dev.de and dev.en, line 2)"
    dev = write(tmp_path, "dev", [PAIRS[0], (" ", ""), PAIRS[1], ("", "")])
    assert run(["evaluate", str(trained), "--data", *map(str, dev)]) == 0
    scores, said = capsys.readouterr()
    assert json.loads(scores)["items"] == 2
    assert said.replace(f"{tmp_path}/", "").count(line) == 1

    given = []

    def read(paths: Sequence[Path], columns: ColumnSettings) -> Iterator[Record]:
        given.append(paths)
        return read_pairs(paths, columns)

    monkeypatch.setattr("heedful.tasks.translate.read_pairs", read)
    files = write(tmp_path, "train", PAIRS)
    assert train(tmp_path / "run", "--train", *files, "--dev", *dev, "--steps", "1") == 0
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "").count(line) == 1
    # Checked before anything is made, encoded before anything is learnt, and scored once.
    assert given.count([*dev]) == 3


def test_a_vocabulary_that_is_missing_or_of_another_run(
    trained: Path, tmp_path: Path, capsys: Out
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    ids = json.loads((folder / "vocab.json").read_text())
    text = (folder / "vocab.json").read_text()  # as many pieces, of which two have swapped ids
    dog, man = (f'"▁{word}": {ids[f"▁{word}"]}' for word in ("dog", "man"))
    swapped = f'"▁man": {ids["▁dog"]}', f'"▁dog": {ids["▁man"]}'
    (folder / "vocab.json").write_text(text.replace(dog, swapped[0]).replace(man, swapped[1]))
    assert run(["predict", str(folder), "Der Hund."]) == 2
    assert "vocab.json: damaged" in capsys.readouterr().err
    (folder / "vocab.json").unlink()
    assert run(["predict", str(folder), "Der Hund."]) == 2
    assert "vocab.json: missing" in capsys.readouterr().err


def test_prefixes_from_a_table(trained: Path, tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "in.tsv"
    path.write_text("de\tstart\nDer Hund läuft.\tThe fish\nDer Mann singt.\t\n")
    columns = ["--input", path, "--text", "de", "--text-pair", "start", "--plain"]
    assert run([str(word) for word in ["predict", trained, *columns]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The fish")
    assert lines[1] == "The man sings."
    assert run([str(word) for word in ["predict", trained, *columns, "--prefix", "A"]]) == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--context", "--context-file"])
def test_a_context_is_no_prefix(trained: Path, capsys: Out, option: str) -> None:
    assert run(["predict", str(trained), "Der Hund.", option, str(trained / "vocab.json")]) == 2
    assert f"{option} has no effect on a translate run" in capsys.readouterr().err


def test_what_is_scored_says_how_it_was_written(trained: Path, tmp_path: Path, capsys: Out) -> None:
    data = ["--data", *write(tmp_path, "test", PAIRS[:2])]
    (scores,) = answers(capsys, "evaluate", trained, *data, "--sample")
    assert "beam" not in scores
    assert run([str(word) for word in ["evaluate", trained, *data, "--alignments"]]) == 2
    assert "--alignments has no effect on scores" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"), [("--beam", "0"), ("--beam", "100000"), ("--repetition-penalty", "0.5")]
)
def test_options_out_of_range(trained: Path, capsys: Out, option: str, value: str) -> None:
    assert run(["predict", str(trained), "Der Hund.", option, value]) == 2
    assert f"{option} {value}: must be" in capsys.readouterr().err
