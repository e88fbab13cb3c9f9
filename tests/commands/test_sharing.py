"""``torchrun ... heedful predict`` and ``evaluate``: several processes answer as one does."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.golden.asking import command
from tests.golden.cases import GERMAN, OTHER
from tests.golden.copies import LATEST

from heedful.cli import run
from heedful.errors import count_of

DRIVER = Path(__file__).parent / "sharing_driver.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
TOLERANCE = 1.01e-6
"""One in the last place that is written."""
SIZES = (2, 3)

PREDICTIONS: dict[str, tuple[str, ...]] = {
    "classify": ("classify", "--input", "data/classify.csv", "data/many.csv", "--all-scores"),
    "regress": ("regress", "--input", "data/regress.csv"),
    "tag": ("tag", "--input", "data/tag.jsonl"),
    "answer": ("answer", "--input", "data/answer.jsonl", "--all-scores"),
    "choose": ("choose", "--input", "data/choose.jsonl", "--all-scores"),
    "embed": ("embed", "--input", "data/embed.csv"),
    "nearest": ("embed", "--input", "data/embed.csv", "--against", "data/pretrain.txt"),
    "pretrain": ("pretrain", "--input", "masks.txt", "--top", "3"),
    "writer": ("writer", "--input", "few.txt", "--max-new-tokens", "8"),
    "drawn": ("replies", "--input", "few.txt", "--sample", "--max-new-tokens", "8"),
    "translate": ("translate", "--input", "german.txt", "--all-scores", "--beam", "3"),
    "one": ("classify", "--input", "one.txt"),
    "long": ("classify", "--input", "long.txt", "--max-length", "8"),
}
EVALUATIONS: dict[str, tuple[str, ...]] = {
    "classify": ("classify", "--data", "data/classify.csv"),
    "regress": ("regress", "--data", "data/regress.csv"),
    "spans": ("spans", "--data", "data/tag.jsonl"),
    "answer": ("answer", "--data", "data/answer.jsonl"),
    "embed": ("embed", "--data", "data/embed.csv", *OTHER),
    "masked": ("masked", "--data", "data/pretrain.txt"),
    "translate": ("translate", "--data", *GERMAN, "--beam", "2"),
}
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "missing": (
        ("predict", "classify", "--input", "one.txt", "on.txt", "--out", "wrong/a.jsonl"),
        "on.txt: no such file (did you mean 'one.txt'?)",
    ),
    "empty": (
        ("predict", "classify", "--input", "one.txt", "empty.txt", "--out", "wrong/b.jsonl"),
        "empty.txt: holds no text",
    ),
    "fields": (
        ("predict", "classify", "--input", "bad.csv", "--out", "wrong/{size}", "--shard-size", "4"),
        "bad.csv, line 14: 2 fields, expected 1 as in line 1; 12 answers are kept: the same",
    ),
    # Only the process that answers the second text encodes it.
    "length": (
        (
            *("predict", "classify", "--input", "long.txt", "--max-length", "20"),
            *("--long-text", "refuse", "--out", "wrong/d.jsonl"),
        ),
        "process 1: long.txt, line 2: the text has 117 tokens, but only 18 fit; see --long-text",
    ),
    "label": (
        ("evaluate", "classify", "--data", "label.csv"),
        "process 1: label.csv, line 3: label 'nothing' is not one of the model's",
    ),
    # All processes meet it, and one tells.
    "scores": (
        ("evaluate", "embed", "--data", "pair.csv", *OTHER),
        "every pair has the same second text",
    ),
    "input": (("predict", "classify"), "several processes cannot read standard input"),
}


OF_THREE = ("stopped", "resumed", "again", "there", "stopped-scores")
BY_THREE = ("classify", "translate", "one", "whole", "wrong-fields", "wrong-length")


def sizes(name: str) -> tuple[int, ...]:
    """Return in how many processes a command line was run."""
    return SIZES if name in BY_THREE else (2,)


def write_data(folder: Path) -> None:
    (folder / "masks.txt").write_text("the [MASK] is red.\nit is [MASK] very [MASK].\n" * 3)
    (folder / "few.txt").write_text("the dog likes\nthe bird\nthe red cat\ncat, red\nhorse\n")
    german = (folder / GERMAN[0]).read_text().splitlines(keepends=True)
    (folder / "german.txt").write_text("".join([*german[:7], "\n", *german[7:12]]))
    (folder / "one.txt").write_text("the green bridge\n")
    (folder / "long.txt").write_text("it is red\n" + "the cat is red. it is white. " * 13 + "\n")
    (folder / "pair.csv").write_text("text,other\nthe red cat,a cat\n")
    (folder / "empty.txt").write_text("")
    (folder / "bad.csv").write_text("text\n" + "the red cat\n" * 12 + "the cat, red\nthe cat\n")
    (folder / "label.csv").write_text("text,label\nthe red cat,animal\nthe red cat,nothing\n")
    for name in ("wrong", *map(str, SIZES)):
        (folder / name).mkdir()


def start(folder: Path, size: int, commands: dict[str, list[str]]) -> list[int]:
    """Run command lines in several processes that share each, and return how each process ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps(commands)],
            cwd=folder,
            env=ENVIRONMENT | meeting | {"RANK": str(rank)},
            stderr=(folder / f"{size}-{rank}.log").open("w"),
        )
        for rank in range(size)
    ]
    return [process.wait(600) for process in processes]


def many_files(to: str, *options: str) -> list[str]:
    files = ("one.txt", "data/classify.csv", "german.txt")
    out = ("--precision", "fp32", "--out", to, "--shard-size", "9")
    return ["predict", "classify", "--input", *files, *out, *options]


def scored(to: str, *options: str) -> list[str]:
    out = ("--precision", "fp32", "--predictions", to)
    return ["evaluate", *EVALUATIONS["classify"], *out, *options]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of two processes, and of three."""
    folder: Path = tmp_path_factory.mktemp("sharing") / "work"
    shutil.copytree(LATEST, folder)
    write_data(folder)
    for size in (3, 2):
        commands = {}
        for name, words in PREDICTIONS.items():
            out = ["--precision", "fp32", "--out", f"{size}/{name}.jsonl", "--shard-size", "7"]
            commands[name] = ["predict", *words, *out]
        for name, words in EVALUATIONS.items():
            out = ["--precision", "fp32", "--predictions", f"{size}/{name}-rows.jsonl"]
            commands[f"{name}-scores"] = ["evaluate", *words, *out]
        if size == 3:
            commands["stopped"] = many_files("stopped")
            commands["resumed"] = many_files("stopped", "--resume")
            commands["again"] = many_files("stopped", "--resume")
            commands["there"] = many_files("stopped")
            commands["stopped-scores"] = scored("stopped.jsonl")
        else:
            commands["resumed-scores"] = scored("stopped.jsonl", "--resume")
        commands["printed"] = ["predict", *PREDICTIONS["classify"]]
        commands["whole"] = many_files(f"{size}/whole")
        tags = ["predict", "tag", "--input", "data/tag.jsonl", "--plain"]
        commands["plain"] = [*tags, "--out", f"{size}/tags.conll"]
        for name, (words, _) in WRONG.items():
            commands[f"wrong-{name}"] = [word.format(size=size) for word in words]
        commands = {
            name: words
            for name, words in commands.items()
            if size in sizes(name) or name in OF_THREE
        }
        if size == 2:
            commands["killed"] = many_files("killed")
        codes = start(folder, size, commands)
        assert all(codes) if size == 2 else codes == [0] * size
    return folder


@pytest.fixture(autouse=True)
def in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)


def said(size: int, name: str) -> tuple[list[str], list[str], list[int]]:
    """Return each process's output, messages and exit code."""
    logs = [Path(f"said/{size}/{name}-{rank}") for rank in range(size)]
    out, err = ([log.with_suffix(end).read_text() for log in logs] for end in (".out", ".err"))
    return out, err, [int(log.with_suffix(".code").read_text()) for log in logs]


def rows_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def assert_same(one: Any, other: Any, where: str) -> None:
    """Check that two JSON values are equal, numbers up to a tolerance."""
    assert type(one) is type(other), where
    if isinstance(one, float):
        assert abs(one - other) <= TOLERANCE * max(1.0, abs(other)), where
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key, value in one.items():
            if key != "tokens_per_second":
                assert_same(value, other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{index}]")
    else:
        assert one == other, where


@pytest.mark.parametrize("name", PREDICTIONS)
def test_several_processes_predict_what_one_does(name: str) -> None:
    right = rows_of(command(["predict", *PREDICTIONS[name], "--precision", "fp32"]))
    for size in sizes(name):
        out, err, codes = said(size, name)
        assert codes == [0] * size, err
        assert_same(rows_of(Path(f"{size}/{name}.jsonl").read_text()), right, name)
        assert out == [""] * size
        assert f"{count_of(len(right), 'answer')} written to {size}/{name}.jsonl\n" in err[0]
        assert err[1:] == [""] * (size - 1)
        assert not Path(f"{size}/{name}.jsonl.parts").exists()


@pytest.mark.parametrize("name", EVALUATIONS)
def test_several_processes_score_as_one_does(name: str, tmp_path: Path) -> None:
    answers = tmp_path / "rows.jsonl"
    words = ["--precision", "fp32", "--predictions", str(answers)]
    right = json.loads(command(["evaluate", *EVALUATIONS[name], *words]))
    for size in sizes(f"{name}-scores"):
        out, err, codes = said(size, f"{name}-scores")
        assert codes == [0] * size, err
        assert_same(json.loads(out[0]), right, name)
        assert out[1:] == err[1:] == [""] * (size - 1)
        rows = rows_of(Path(f"{size}/{name}-rows.jsonl").read_text())
        assert_same(rows, rows_of(answers.read_text()), name)


def test_each_item_is_counted_once() -> None:
    lines = [line.split() for line in said(2, "classify-scores")[1][0].splitlines()]
    table = {words[0]: words[-1] for words in lines if words}
    assert [table[label] for label in ("animal", "food", "place")] == ["16"] * 3


def test_standard_output_has_the_answers_in_order() -> None:
    right = rows_of(command(["predict", *PREDICTIONS["classify"]]))
    out, _, codes = said(2, "printed")
    assert codes == [0, 0]
    assert [row["label"] for row in rows_of(out[0])] == [row["label"] for row in right]
    assert out[1] == ""


def test_a_folder_has_a_file_for_each_input() -> None:
    for size in SIZES:
        folder = Path(f"{size}/whole")
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            ["one.jsonl", "classify.jsonl", "german.jsonl"]
        )
        for name in ("one.txt", "data/classify.csv", "german.txt"):
            right = rows_of(command(["predict", "classify", "--input", name]))
            rows = rows_of((folder / Path(name).with_suffix(".jsonl").name).read_text())
            assert [row["label"] for row in rows] == [row["label"] for row in right]
            assert len(rows) == len(right)


def test_a_prediction_that_was_stopped_goes_on() -> None:
    _, err, codes = said(3, "stopped")
    assert codes == [130] * 3
    assert err[0].startswith(
        "stopped; 18 answers are kept: the same command with --resume continues"
    )
    _, err, codes = said(3, "resumed")
    assert codes == [0] * 3
    assert err[0].startswith("continuing after 18 answers\n")
    for path in Path("3/whole").iterdir():
        assert (Path("stopped") / path.name).read_bytes() == path.read_bytes()
    assert not Path("stopped.parts").exists()
    assert (
        said(3, "again")[1][0]
        == "stopped exists, so nothing is computed; --overwrite computes it again\n"
    )
    _, err, codes = said(3, "there")
    assert err[0].startswith("heedful: --out stopped exists; ")
    assert codes == [2] * 3


def test_another_number_of_processes_goes_on_after_one_was_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not Path("killed").exists()
    assert run(many_files("killed", "--resume")) == 0
    assert capsys.readouterr().err.startswith("continuing after 18 answers\n")
    for path in Path("2/whole").iterdir():
        rows, right = (rows_of((Path(of) / path.name).read_text()) for of in ("killed", "2/whole"))
        assert_same(rows, right, path.name)


def test_another_number_of_processes_goes_on_with_an_evaluation() -> None:
    _, err, codes = said(3, "stopped-scores")
    assert codes == [130] * 3
    assert err[0].startswith(
        "stopped; 30 answers are kept: the same command with --resume continues"
    )
    out, err, codes = said(2, "resumed-scores")
    assert codes == [0, 0]
    assert err[0].startswith("continuing after 30 answers\n")
    assert_same(json.loads(out[0]), json.loads(said(2, "classify-scores")[0][0]), "scores")
    rows, right = (
        rows_of(Path(of).read_text()) for of in ("stopped.jsonl", "2/classify-rows.jsonl")
    )
    assert_same(rows, right, "rows")


def test_an_answer_alone_may_take_several_lines() -> None:
    right = command(["predict", "tag", "--input", "data/tag.jsonl", "--plain"])
    assert right.count("\n") > len(Path("data/tag.jsonl").read_text().splitlines())
    assert Path("2/tags.conll").read_text() == right


@pytest.mark.parametrize("name", WRONG)
def test_an_error_ends_all_processes_and_is_told_once(name: str) -> None:
    words, message = WRONG[name]
    for size in sizes(f"wrong-{name}"):
        out, err, codes = said(size, f"wrong-{name}")
        assert codes == [2] * size
        assert err[0].startswith(f"heedful: {message}")
        assert err[0].count("\n") == 1
        assert out == [""] * size
        assert err[1:] == [""] * (size - 1)
    if "--out" in words:
        out = Path(words[words.index("--out") + 1].format(size=2))
        assert not out.exists()
        assert out.with_name(f"{out.name}.parts").exists() == (name == "fields")
