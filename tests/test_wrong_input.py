"""Wrong input from the command line: one clear line, exit code 2, and no lost or partial file."""

import gzip
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from heedful.cli import EXIT_USER_ERROR, run

GOOD = "text,label\nthe sky is blue,blue\nthe grass is green,green\n"


@pytest.fixture
def fails(
    tmp_path: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
    """Provide a function that runs a failing command line, and checks and returns its one line."""
    monkeypatch.chdir(tmp_path)

    def check(*arguments: object) -> str:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        lines = [line for line in captured.err.splitlines() if line.startswith("heedful: ")]
        assert code == EXIT_USER_ERROR, captured.err
        assert len(lines) == 1, captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""
        assert not list(tmp_path.rglob("*.partial"))
        return lines[0]

    return check


@pytest.fixture
def train(fails: Callable[..., str], tiny_model: Path) -> Callable[..., str]:
    """Provide a function that trains on a file's content, expecting it to fail before it starts."""

    def check(content: str | bytes | None, *options: object, name: str = "data.csv") -> str:
        path = Path(name)
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        command = ["train", "classify", "--model", tiny_model, "--train", path, "--out", "run"]
        line = fails(*command, *options)
        assert not Path("run").exists()
        return line

    return check


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (None, [], r"data.csv: no such file"),
        ("", [], r"data.csv"),
        ("text,label\n", [], r"data.csv: holds no records"),
        (GOOD, ["--text", "txt"], r"data.csv.*'txt'.*'text'"),
        (GOOD, ["--text", "7"], r"data.csv.*7.*2"),
        (GOOD, ["--text", "0"], r"data.csv.*0"),
        (GOOD, ["--label", "lable"], r"data.csv.*'lable'.*'label'"),
        (GOOD + "too few\n", [], r"data.csv, line 4: 1 field, expected 2 as in line 1"),
        (GOOD + "a,b,c\n", [], r"data.csv, line 4: 3 fields, expected 2 as in line 1"),
        (GOOD.encode() + b"caf\xe9,blue\n", [], r"data.csv, line 4.*UTF-8"),
        (GOOD.encode() + b"a\0b,blue\n", [], r"data.csv, line 4.*NUL"),
        (GOOD + '"open,blue\nx,y,z\n', [], r"data.csv, line 5: 3 fields|data.csv, line 4.*quotes"),
        (GOOD + ",blue\n", [], r"data.csv, line 4.*empty"),
        (GOOD + "a text,\n", [], r"data.csv, line 4.*label.*empty"),
        ("text,label\na,x\nb,x\n", [], r"at least 2 different labels.*only 'x'"),
        (GOOD, ["--labels", "blue,red"], r"label 'green' in the training data.*blue, red"),
        (GOOD, ["--labels", "blue,blue,green"], r"--labels names 'blue' 2 times"),
        (GOOD, ["--labels", "blue,green,"], r"--labels has an empty label; check its commas"),
        (GOOD, ["--epochs", "0"], r"--epochs 0: must be a whole number of at least 1"),
        (GOOD, ["--epochs", "two"], "--epochs two: must be a whole number"),
        (GOOD, ["--steps", "0"], r"--steps 0"),
        (GOOD, ["--batch-size", "-1"], r"--batch-size -1"),
        (GOOD, ["--learning-rate", "0"], r"--learning-rate 0.0: must be above 0"),
        (GOOD, ["--learning-rate", "nan"], r"--learning-rate nan"),
        (GOOD, ["--dropout", "1"], r"--dropout 1.0: must be from 0 to below 1"),
        (GOOD, ["--warmup", "-0.1"], r"--warmup -0.1"),
        (GOOD, ["--warmup", "1.5"], r"--warmup 1.5.*whole number"),
        (
            GOOD,
            ["--schedule", "constant", "--warmup", "4"],
            r"--warmup has no effect on --schedule constant; give --schedule constant-with-warmup",
        ),
        (GOOD, ["--revision", "v2"], r"--revision v2 is for a model from a hub, but .* a folder"),
        (GOOD, ["--clip", "-1"], r"--clip -1"),
        (GOOD, ["--seed", "-1"], r"--seed -1"),
        (GOOD, ["--max-minutes", "0"], r"--max-minutes 0"),
        (GOOD, ["--max-length", "41"], r"--max-length 41: this model has 40 positions"),
        (GOOD, ["--max-length", "2"], r"--max-length 2.*from 8 to 40"),
        (GOOD, ["--max-length", "0"], r"--max-length 0: must be a whole number of at least 1"),
        (GOOD, ["--learning-rte", "1"], r"--learning-rte.*--learning-rate"),
        (GOOD, ["--schedule", "liner"], r"\"liner\" for --schedule.*Did you mean \"linear\""),
        (GOOD, ["--precision", "fp8"], r"fp8.*--precision.*bf16"),
        (GOOD, ["--device", "tpu"], r"unknown device 'tpu'"),
        (GOOD, ["--metric", "acuracy"], r"unknown --metric 'acuracy'.*'accuracy'"),
        (GOOD, ["--patience", "2"], r"--patience is for evaluations on --dev: give --dev too"),
        (GOOD, ["--metric", "accuracy"], r"--metric is for evaluations on --dev"),
        (GOOD, ["--class-weights", "blu=2"], r"--class-weights 'blu=2'.*'blue'"),
        (GOOD, ["--class-weights", "blue=-2"], r"--class-weights 'blue=-2'.*above 0"),
        (GOOD, ["--class-weights", "blue=2,blue=3"], r"--class-weights names 'blue' 2 times"),
        (GOOD, ["--dev", "dev.csv"], r"dev.csv: no such file"),
        (GOOD, ["--resume", "--overwrite"], r"--resume.*--overwrite.*one of them"),
        (GOOD, ["--config", "none.toml"], r"--config none.toml: no such file"),
        (GOOD, ["extra"], r"extra"),
    ],
)
def test_training_is_refused(
    train: Callable[..., str], content: str | bytes | None, options: list[str], expected: str
) -> None:
    import re

    line = train(content, *options)
    assert re.search(expected, line), line


def test_damaged_and_foreign_files(train: Callable[..., str]) -> None:
    packed = gzip.compress(GOOD.encode() * 50)
    assert "data.csv.gz" in train(packed[:-20], name="data.csv.gz")
    assert "not gzip" in train(GOOD, name="plain.csv.gz").replace("not a gzip", "not gzip")
    assert "data.jsonl, line 2" in train('{"text": "a", "label": "b"}\n{', name="data.jsonl")
    assert "Parquet" in train(b"PAR1 no", name="data.parquet")
    assert ".xyz" in train(GOOD, name="data.xyz")
    Path("folder.csv").mkdir()
    assert "folder" in train(None, name="folder.csv")


def test_unbalanced_quotes_do_not_swallow_rows(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ['"the sky, blue', "the grass,green", 'the "sky",blue', '"the ""apple""",red']
    data = tmp_path / "data.csv"
    data.write_text("text,label\n" + "\n".join(rows[1:] * 3 + ["the sky is,blue"]) + "\n")
    command = ["train", "classify", "--model", tiny_model, "--train", data, "--steps", "1"]
    assert run([str(part) for part in [*command, "--out", tmp_path / "run"]]) == 0
    told = capsys.readouterr().err
    assert "10 examples" in told
    assert "3 labels" in told


def test_a_command_or_a_task_that_is_not_there(fails: Callable[..., str]) -> None:
    assert "train" in fails("trian")
    assert "classify" in fails("train", "clasify")
    assert "--train" in fails("train", "classify", "--out", "run")


def test_config_files(train: Callable[..., str]) -> None:
    Path("bad.toml").write_text("learning_rte = 1e-5\n")
    assert "learning" in train(GOOD, "--config", "bad.toml")
    Path("broken.toml").write_text("learning_rate = \n")
    assert "broken.toml" in train(GOOD, "--config", "broken.toml")
    for content, line in ((b"epochs = 3\n# caf\xe9\n", 2), ("epochs = 3".encode("utf-16"), 1)):
        Path("latin.toml").write_bytes(content)
        told = train(GOOD, "--config", "latin.toml")
        expected = f"--config latin.toml, line {line}: not UTF-8; give a TOML file saved as UTF-8"
        assert told == f"heedful: {expected}"


@pytest.fixture
def finished(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Path:
    """Provide a run folder trained for two steps."""
    out = tmp_path / "finished"
    command = ["train", "classify", "--model", tiny_model, "--train", colours, "--out", out]
    assert run([str(part) for part in [*command, "--steps", "2"]]) == 0
    capsys.readouterr()
    return out


def test_a_run_that_exists_is_not_touched(
    fails: Callable[..., str], finished: Path, tiny_model: Path, colours: Path
) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    command = ["train", "classify", "--model", tiny_model, "--train", colours, "--out"]
    assert "holds a finished run" in fails(*command, finished)
    after = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert after == before
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep me")
    assert "mine holds other files" in fails(*command, "mine")
    assert "mine holds other files" in fails(*command, "mine", "--overwrite")
    assert Path("mine/notes.txt").read_text() == "keep me"
    Path("file").write_text("x")
    assert "is a file" in fails(*command, "file")


def test_predicting_and_evaluating(fails: Callable[..., str], finished: Path) -> None:
    assert "no such run" in fails("predict", "nowhere", "a text")
    Path("empty").mkdir()
    assert "not a heedful run" in fails("predict", "empty", "a text")
    assert "missing.csv" in fails("predict", finished, "--input", "missing.csv")
    Path("in.txt").write_text("the sky\n")
    assert "not both" in fails("predict", finished, "a text", "--input", "in.txt")
    assert "from 8 to 40" in fails("predict", finished, "a", "--max-length", "500")
    assert "--long-text" in fails("predict", finished, "a", "--long-text", "middle")
    Path("new.csv").write_text("text,label\nthe sky,blu\n")
    line = fails("evaluate", finished, "--data", "new.csv")
    assert "new.csv, line 2: label 'blu'" in line
    assert "'blue'" in line
    Path("several.csv").write_text("text,label\nthe sky,blue;red\n")
    line = fails("evaluate", finished, "--data", "several.csv", "--label-separator", ";")
    assert "2 labels, expected 1; only a run that is trained with --label-separator has" in line


def test_options_of_score_that_would_change_nothing(fails: Callable[..., str]) -> None:
    assert "--weight is for the lists" in fails("score", "run", "a text", "--weight", "2")
    assert "--weight nan" in fails("score", "run", "--n-best", "a.jsonl", "--weight", "nan")
    assert "--all-scores is for texts" in fails("score", "run", "--n-best", "a", "--all-scores")


GOLDEN = Path(__file__).parent / "golden" / "0.1.0"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["regress"], "--all-scores has no effect on a regress run"),
        (["masked"], "on a pretrain run; --top sets how many words are printed"),
        (["embed", "--against", "a.txt"], "--all-scores has no effect with --against; --top"),
        (["classify", "--plain"], "--plain prints the answer alone, without scores"),
    ],
)
def test_all_scores_where_there_are_no_more(
    fails: Callable[..., str], words: list[str], expected: str
) -> None:
    assert expected in fails("predict", GOLDEN / words[0], "a text", *words[1:], "--all-scores")


def damaged(finished: Path, name: str, change: Callable[[Path], None]) -> Path:
    change(finished / name)
    return finished


def oversized(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**60) + path.read_bytes()[8:])


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def header_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def other_shape(path: Path) -> None:
    tensors = load_file(path)
    tensors["classifier.weight"] = tensors["classifier.weight"][:, :-1].contiguous()
    save_file(tensors, path)


def one_missing(path: Path) -> None:
    tensors = load_file(path)
    del tensors["bert.encoder.layer.1.output.dense.bias"]
    save_file(tensors, path)


def pickled(path: Path) -> None:
    path.write_bytes(b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.")


def twice(path: Path) -> None:
    path.write_text(path.read_text() + "apple\n")


def misspelt(path: Path) -> None:
    config = json.loads(path.read_text())
    config["hiden_size"] = config.pop("hidden_size")
    path.write_text(json.dumps(config))


def foreign(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "t5"}))


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("model.safetensors", Path.unlink, "model.safetensors"),
        ("model.safetensors", oversized, "model.safetensors: its header claims"),
        ("model.safetensors", truncated, "model.safetensors"),
        ("model.safetensors", header_cut, "model.safetensors: its header claims"),
        ("model.safetensors", other_shape, "classifier.weight"),
        ("model.safetensors", one_missing, "encoder.layer.1.output.dense.bias"),
        ("model.safetensors", pickled, "pickle"),
        ("config.json", misspelt, "'hiden_size' (did you mean 'hidden_size'?)"),
        ("config.json", foreign, "t5"),
        ("config.json", truncated, "config.json"),
        ("config.json", Path.unlink, "config.json"),
        ("vocab.txt", twice, "apple"),
        ("vocab.txt", Path.unlink, "vocab.txt"),
        ("heedful.json", truncated, "heedful.json"),
    ],
)
def test_a_damaged_model_folder(
    fails: Callable[..., str],
    finished: Path,
    name: str,
    change: Callable[[Path], None],
    expected: str,
) -> None:
    change(finished / name)
    line = fails("predict", finished, "a text")
    assert expected in line, line


def test_only_a_pickle_in_the_folder(fails: Callable[..., str], finished: Path) -> None:
    (finished / "model.safetensors").rename(finished / "pytorch_model.bin")
    assert "pytorch_model.bin" in fails("predict", finished, "a text")


def test_an_unfinished_run_does_not_predict(fails: Callable[..., str], finished: Path) -> None:
    (finished / "manifest.json").unlink()
    assert "--resume" in fails("predict", finished, "a text")


def test_a_loss_that_is_not_a_number_stops_the_run(
    fails: Callable[..., str], tiny_model: Path, colours: Path, tmp_path: Path
) -> None:
    command = ["train", "classify", "--model", tiny_model, "--train", colours, "--out", "run"]
    options = ["--precision", "fp32", "--learning-rate", "10", "--clip", "0", "--steps", "400"]
    poisoned = Path("poisoned")
    shutil.copytree(tiny_model, poisoned)
    tensors = load_file(poisoned / "model.safetensors")
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    words = (poisoned / "vocab.txt").read_text().split()
    tensors[name][words.index("sky")] = float("nan")
    save_file(tensors, poisoned / "model.safetensors", metadata={"format": "pt"})
    command[3] = poisoned
    line = fails(*command, *options)
    assert "training stopped at step" in line
    assert "epoch 1" in line
    assert "nan" in line
    assert "no checkpoint had been written" in line
    assert not Path("run/model.safetensors").exists()


DISK_FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from heedful.cli import run
import heedful.commands.train
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(run(sys.argv[2:]))
"""


def test_a_disk_that_fills_while_saving(tiny_model: Path, colours: Path, tmp_path: Path) -> None:
    """A limit on the file size simulates a full disk: the same call fails half-way."""
    out = tmp_path / "run"
    command = ["train", "classify", "--model", tiny_model, "--train", colours, "--out", out]
    command += ["--steps", "6", "--batch-size", "8", "--checkpoint-every", "3"]
    weights = (tiny_model / "model.safetensors").stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(weights // 2), *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_USER_ERROR, done.stderr
    assert "Traceback" not in done.stderr
    assert "could not be written" in done.stderr
    assert not list(out.rglob("*.partial"))
    assert not (out / "manifest.json").exists()
    # With room again, the same command goes on.
    assert run([str(part) for part in [*command, "--resume"]]) == 0
    assert (out / "manifest.json").exists()


def test_a_mistake_met_while_tokenizing_leaves_no_run_folder(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "pairs.csv"
    words = " ".join(["blue"] * 60)
    data.write_text(f"text,pair,label\na,b,x\n{words},{words},y\n")
    command = ["train", "classify", "--model", tiny_model, "--train", data, "--out"]
    command += [tmp_path / "run", "--text-pair", "pair", "--long-text", "refuse", "--steps", "1"]
    assert run([str(part) for part in command]) == EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert "pairs.csv, line 3: the text has 120 tokens, but only 37 fit" in error
    assert not (tmp_path / "run").exists()
    data.write_text("text,pair,label\na,b,x\nc,d,y\n")
    assert run([str(part) for part in command]) == 0
