"""The commands as a user types them, on small files, end to end."""

import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.alike import assert_same_scores

import heedful
from heedful.cli import run
from heedful.cli.training import report
from heedful.settings import TASKS, RunSettings
from heedful.training.fit import Outcome

Out = pytest.CaptureFixture[str]

RATES = ["--learning-rate", "1e-2", "--head-learning-rate", "1e-2"]


def command(capsys: Out, *words: object) -> str:
    """Run a command line that must succeed; return its standard output."""
    code = run([str(word) for word in words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def trained(tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out) -> Path:
    out = tmp_path / "run"
    options = ["--epochs", "25", "--batch-size", "8", *RATES, "--warmup", "0"]
    train = ["train", "classify", "--model", tiny_model, "--train", colours, "--dev", colours]
    command(capsys, *train, "--out", out, *options, "--dropout", "0", "--precision", "fp32")
    return out


def test_commands_to_go_on_with_can_be_typed_whatever_the_folder_is_called(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "my tickets' run"
    train = ["train", "classify", "--model", tiny_model, "--train", colours, "--steps", 1]
    assert run([*map(str, train), "--out", str(out)]) == 0
    *_, said = capsys.readouterr().err.splitlines()
    for line in (said.partition("try: ")[2], (out / "MODEL_CARD.md").read_text("utf-8")):
        words = shlex.split(line[line.index("heedful predict") :].partition("\n")[0])
        assert Path(words[2]).name == out.name
    assert shlex.split(said)[-3] == str(out)


def test_train_evaluate_predict(trained: Path, colours: Path, capsys: Out) -> None:
    assert run(["evaluate", str(trained), "--data", str(colours)]) == 0
    captured = capsys.readouterr()
    scores = json.loads(captured.out)
    assert scores["accuracy"] == 1.0
    # What grows with the labels is in the file and in the table, not in the line of JSON.
    stored = json.loads((trained / "metrics.json").read_text())
    kept = {key: stored[key] for key in stored if key not in ("per_class", "confusion")}
    assert_same_scores(scores, kept)
    assert [row["label"] for row in stored["per_class"]] == ["blue", "green", "red"]
    assert stored["confusion"] == [[15, 0, 0], [0, 15, 0], [0, 0, 15]]
    shown = [line.split() for line in captured.err.splitlines()]
    assert ["green", "1.000", "1.000", "1.000", "15"] in shown
    assert ["2", "green", ".", "15", "."] in shown
    assert scores["tokens_used"] == scores["tokens_total"] > 2 * scores["items"]
    cut = ["--long-text", "head", "--max-length", "8"]
    less = json.loads(command(capsys, "evaluate", trained, "--data", colours, *cut))
    assert less["tokens_used"] < less["tokens_total"] == scores["tokens_total"]

    texts = ["the sky is blue", "the apple is very red"]
    answers = rows(command(capsys, "predict", trained, *texts, "--all-scores"))
    assert [answer["label"] for answer in answers] == ["blue", "red"]
    assert sum(answers[0]["scores"].values()) == pytest.approx(1, abs=1e-5)
    assert answers[0]["tokens_total"] == answers[0]["tokens_used"] == 4
    assert command(capsys, "predict", trained, *texts, "--plain").split() == ["blue", "red"]

    predict = heedful.load(trained)
    one, many = predict(texts[0]), predict(texts)
    assert isinstance(one, heedful.Prediction)
    assert isinstance(many, list)
    # Served = evaluated: alone, in a batch, in Python and on the command line.
    assert one.label == many[0].label == answers[0]["label"]
    assert one.score == pytest.approx(many[0].score, abs=1e-2)


def test_a_run_folder_is_whole(trained: Path) -> None:
    names = {path.name for path in trained.iterdir()}
    assert names == {
        "MODEL_CARD.md",
        "checkpoints",
        "config.json",
        "heedful.json",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
    } & names | names - {"special_tokens_map.json"}
    record = json.loads((trained / "heedful.json").read_text())
    assert record["goal"]["labels"] == ["blue", "green", "red"]
    log = rows((trained / "metrics.jsonl").read_text())
    assert [row["step"] for row in log if "loss" in row] == list(range(1, 151))
    assert any("dev" in row for row in log)
    assert "blue, green, red" in (trained / "MODEL_CARD.md").read_text()
    model = heedful.BertForSequenceClassification.from_pretrained(trained)
    assert model.config.id2label == {0: "blue", 1: "green", 2: "red"}


def test_the_reference_library_reads_a_run(trained: Path) -> None:
    import torch
    from transformers import BertForSequenceClassification, BertTokenizerFast

    theirs = BertForSequenceClassification.from_pretrained(trained)
    tokenizer = BertTokenizerFast.from_pretrained(trained)
    ours = heedful.BertForSequenceClassification.from_pretrained(trained)
    batch = tokenizer(["the sky is blue", "grass"], padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    own = heedful.BertTokenizer.from_pretrained(trained)
    assert own(["the sky is blue", "grass"], padding=True)["input_ids"] == ids.tolist()
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask).logits
        torch.testing.assert_close(ours(ids, mask).logits, expected, rtol=1e-5, atol=1e-6)
    assert theirs.config.id2label == {0: "blue", 1: "green", 2: "red"}


def test_text_can_come_from_files_and_standard_input(
    trained: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["blue", "green", "red"]
    # Texts that it learnt from: this is about files, not about what a tiny model makes of others.
    texts = ["the sky is blue 0", "the grass is green 0", "the apple is red 0"]
    with gzip.open(tmp_path / "in.txt.gz", "wt") as stream:
        stream.write("\n".join(texts) + "\n")
    pq.write_table(pa.table({"message": texts}), tmp_path / "in.parquet")
    lines = (json.dumps({"message": text}) for text in texts)
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "in.tsv").write_text("id\tmessage\n" + "".join(f"1\t{text}\n" for text in texts))
    for name in ("in.txt.gz", "in.parquet", "in.jsonl", "in.tsv"):
        options = [] if name == "in.txt.gz" else ["--text", "message"]
        out = command(capsys, "predict", trained, "--input", tmp_path / name, *options)
        assert [row["label"] for row in rows(out)] == wanted, name
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert command(capsys, "predict", trained, "--plain").split() == wanted


def test_the_name_of_a_file_is_a_text_and_that_is_said(
    trained: Path, colours: Path, capsys: Out
) -> None:
    assert run(["predict", str(trained), str(colours), "the sky", "a" * 10_000]) == 0
    answered = capsys.readouterr()
    assert len(answered.out.splitlines()) == 3
    assert "the name of a file was read as a text: for the texts in the file" in answered.err


def test_long_texts(trained: Path, capsys: Out) -> None:
    text = "the sky is blue " * 30
    for rule, used in (("window", 120), ("head", 38), ("head-tail", 38)):
        (row,) = rows(command(capsys, "predict", trained, text, "--long-text", rule))
        assert (row["tokens_total"], row["tokens_used"]) == (120, used)
        assert row["label"] == "blue"


def test_training_says_what_it_does_not_learn_from(
    tiny_model: Path, tmp_path: Path, capsys: Out
) -> None:
    data = tmp_path / "long.csv"
    data.write_text(f"text,label\n{'the sky ' * 40},a\nthe grass,b\n")
    train = ["train", "classify", "--model", tiny_model, "--train", data, "--steps", "1", "--out"]
    assert run([str(word) for word in [*train, tmp_path / "head"]]) == 0
    assert "1 text is longer than 40 tokens: 42 tokens" in capsys.readouterr().err
    assert run([str(word) for word in [*train, tmp_path / "all", "--long-text", "window"]]) == 0
    said = capsys.readouterr().err
    assert "longer than" not in said
    assert "4 examples" in said


def test_pairs_and_several_labels(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    data = tmp_path / "pairs.jsonl"
    records = [
        {"a": "the sky", "b": "is blue", "tags": ["up", "blue"]},
        {"a": "the grass", "b": "is green", "tags": ["green"]},
        {"a": "red", "b": "apple", "tags": []},
    ]
    data.write_text("\n".join(map(json.dumps, records)) + "\n")
    columns = ["--text", "a", "--text-pair", "b", "--label", "tags", "--label-separator", ";"]
    train = ["train", "classify", "--model", tiny_model, "--train", data, "--out", tmp_path / "r"]
    options = ["--steps", "300", "--learning-rate", "3e-3", "--head-learning-rate", "3e-3"]
    options += ["--dropout", "0", "--precision", "fp32"]
    command(capsys, *train, *columns, *options)
    out = command(capsys, "predict", tmp_path / "r", "--input", data, *columns)
    assert [row["label"] for row in rows(out)] == [["blue", "up"], ["green"], []]
    scores = json.loads(command(capsys, "evaluate", tmp_path / "r", "--data", data, *columns))
    assert scores["accuracy"] == 1.0


def test_class_weights_early_stopping_tensorboard_and_the_best_step(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    train = ["train", "classify", "--model", tiny_model, "--train", colours, "--dev", colours]
    options = ["--epochs", "40", "--batch-size", "8", *RATES, "--tensorboard"]
    options += ["--class-weights", "balanced", "--patience", "2", "--metric", "macro_f1"]
    out = tmp_path / "run"
    assert run([str(word) for word in [*train, "--out", out, *options]]) == 0
    assert "no improvement in 2 evaluations" in capsys.readouterr().err
    assert list((out / "tensorboard").glob("events.*"))
    log = rows((out / "metrics.jsonl").read_text())
    curve = [row["dev"]["macro_f1"] for row in log if "dev" in row]
    assert curve.index(max(curve)) == len(curve) - 3
    # What is kept is the best step, not the last one.
    scores = json.loads(command(capsys, "evaluate", out, "--data", colours))
    assert scores["macro_f1"] == pytest.approx(max(curve), abs=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_the_help_of_a_task_shows_that_task(task: str) -> None:
    shown = TASKS[task].options.__doc__ or ""
    assert {line.split()[2] for line in shown.splitlines() if "heedful train" in line} == {task}


def test_options_from_a_file(tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'train = ["{colours}"]\nmodel = "{tiny_model}"\nsteps = 3\nepochs = 9\n')
    out = tmp_path / "run"
    command(capsys, "train", "classify", "--config", config, "--out", out, "--steps", "2")
    settings = json.loads((out / "heedful.json").read_text())["settings"]
    assert settings["steps"] == 2  # the command line decides
    assert settings["epochs"] == 9


def test_resuming_a_finished_run_does_nothing(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    train = ["train", "classify", "--model", tiny_model, "--train", colours, "--steps", "2"]
    train += ["--out", tmp_path / "run"]
    command(capsys, *train)
    before = (tmp_path / "run/model.safetensors").stat().st_mtime_ns
    assert run([str(word) for word in [*train, "--resume"]]) == 0
    assert "is finished; nothing to do" in capsys.readouterr().err
    assert (tmp_path / "run/model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("session_steps", "said"),
    [(1500, "1,500 steps in 52 s, "), (1397, "1,500 steps, the last 1,397 in 52 s, ")],
)
def test_the_time_of_a_resumed_run_is_that_of_its_last_steps(
    trained: Path, capsys: Out, session_steps: int, said: str
) -> None:
    recipe: Any = SimpleNamespace(run=RunSettings(out=trained))
    outcome = Outcome(
        step=1500,
        best_step=None,
        scores={},
        seconds=52,
        tokens=520,
        session_steps=session_steps,
        stopped=None,
    )
    report(recipe, outcome)
    assert said in capsys.readouterr().err


def test_the_confusion_matrix_is_drawn(trained: Path, colours: Path, tmp_path: Path) -> None:
    for name in ("matrix.png", "matrix.svg"):
        words = ["evaluate", trained, "--data", colours, "--picture", tmp_path / name]
        assert run([str(word) for word in words]) == 0
        assert (tmp_path / name).stat().st_size > 1000


def test_tokenize_and_doctor(capsys: Out, tiny_model: Path) -> None:
    (row,) = rows(command(capsys, "tokenize", "--model", tiny_model, "The sky?"))
    assert row["pieces"] == ["[CLS]", "the", "sky", "?", "[SEP]"]
    assert row["offsets"] == [[0, 0], [0, 3], [4, 7], [7, 8], [0, 0]]
    report = json.loads(command(capsys, "doctor"))
    assert report["heedful"] == heedful.__version__


def test_what_is_printed_is_json_in_utf_8(tmp_path: Path) -> None:
    """Even if the terminal's encoding differs; input must be UTF-8, too."""
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\né\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    words = [sys.executable, "-m", "heedful", "tokenize", "--model", str(tmp_path)]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run([*words, "é"], capture_output=True, env=ascii_only, check=True)
    assert json.loads(found.stdout)["pieces"] == ["[CLS]", "é", "[SEP]"]
    found = subprocess.run(words, input=b"caf\xe9\n", capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (2, b"")
    assert b"standard input, line 1: not UTF-8" in found.stderr
