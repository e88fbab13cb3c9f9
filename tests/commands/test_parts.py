"""``heedful predict --out``: answers in shards that survive a stop, and how they are resumed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.golden.asking import command
from tests.golden.copies import LATEST
from tests.holding import HeldAlreadyError, held_elsewhere

import heedful
from heedful.cli import run
from heedful.commands import shards
from heedful.commands.parts import PartialOutput
from heedful.errors import UserError

OUT = Path("answers.jsonl")
PARTS = Path("answers.jsonl.parts")
PREDICT = ["predict", "classify", "--input", "new.csv", "--out", str(OUT), "--shard-size", "10"]


@pytest.fixture(autouse=True)
def in_golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("classify", "embed", "data"):
        shutil.copytree(LATEST / name, tmp_path / name)
    shutil.copy(tmp_path / "data/classify.csv", tmp_path / "new.csv")
    monkeypatch.chdir(tmp_path)


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the line of a command that must fail."""
    capsys.readouterr()
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def stop_after(shards: int, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop a command as Ctrl-C would, once some shards are written."""
    add, before = PartialOutput.add, OUT.read_text() if OUT.exists() else None

    def stopping(self: PartialOutput, *arguments: Any) -> None:
        if len(self.shards) == shards:
            raise KeyboardInterrupt
        add(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartialOutput, "add", stopping)
        assert run(words) == 130
    assert (OUT.read_text() if OUT.exists() else None) == before


def right() -> str:
    return command(["predict", "classify", "--input", "new.csv"])


def test_answers_in_a_file_are_those_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PREDICT) == 0
    assert OUT.read_text() == right()
    assert capsys.readouterr() == ("", "48 answers written to answers.jsonl\n")
    assert not PARTS.exists()


def test_what_is_stopped_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(2, PREDICT, monkeypatch)
    assert capsys.readouterr().err == (
        "stopped; 20 answers are kept: the same command with --resume continues\n"
    )
    assert sorted(path.name for path in PARTS.iterdir()) == [
        *("000000.jsonl", "000001.jsonl", "finished.jsonl", "prediction.json")
    ]
    assert (PARTS / "000000.jsonl").read_text() == "".join(right().splitlines(keepends=True)[:10])
    assert "give --resume to continue it" in error_of(PREDICT, capsys)
    answered: list[int] = []
    monkeypatch.setattr(shards, "_row", _counting(answered))
    assert run([*PREDICT, "--resume"]) == 0
    assert len(answered) == 28
    assert OUT.read_text() == right()
    assert not PARTS.exists()


def _counting(answered: list[int]) -> Any:
    row = shards._row

    def counting(*arguments: Any) -> Any:
        answered.append(1)
        return row(*arguments)

    return counting


def test_two_processes_do_not_compute_the_same_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(2, PREDICT, monkeypatch)
    with held_elsewhere(PARTS):
        for flags in ([], ["--resume"], ["--overwrite"]):
            said = error_of([*PREDICT, *flags], capsys)
            assert "answers.jsonl: another process is computing these answers; wait" in said
    assert run([*PREDICT, "--resume"]) == 0
    assert OUT.read_text() == right()
    assert not PARTS.exists()


@pytest.mark.parametrize("flags", [[], ["--resume"], ["--overwrite"]])
def test_answers_are_held_until_all_are_there(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if flags:
        stop_after(2, PREDICT, monkeypatch)
    add, refused = PartialOutput.add, []

    def adding(self: PartialOutput, *arguments: Any) -> None:
        add(self, *arguments)
        if len(self.shards) == 3:
            with pytest.raises(HeldAlreadyError), held_elsewhere(PARTS):
                pass
            refused.append(flags)

    monkeypatch.setattr(PartialOutput, "add", adding)
    assert run([*PREDICT, *flags]) == 0
    assert refused == [flags]
    assert OUT.read_text() == right()
    assert not PARTS.exists()


def test_a_shard_that_is_damaged_is_answered_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(3, PREDICT, monkeypatch)
    (PARTS / "000001.jsonl").write_text("{}\n")
    with (PARTS / "finished.jsonl").open("a") as journal:
        journal.write('{"items": 1')  # as of a process that was killed there
    (PARTS / ".000003.jsonl.1.partial").write_text("half")
    capsys.readouterr()
    assert run([*PREDICT, "--resume"]) == 0
    assert "continuing after 10 answers\n" in capsys.readouterr().err
    assert OUT.read_text() == right()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--raw"], "was started with --raw False, now it is True"),
        (["--text", "label"], "was started with --text text, now it is label"),
        (["--all-scores"], "was started with --all-scores False, now it is True"),
    ],
)
def test_other_settings_do_not_go_on(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop_after(1, PREDICT, monkeypatch)
    assert message in error_of([*PREDICT, "--resume", *words], capsys)
    size = [*PREDICT[:-1], "9", "--resume"]
    assert "was started with --shard-size 10, now it is 9" in error_of(size, capsys)
    assert (PARTS / "000000.jsonl").is_file()


@pytest.mark.parametrize("size", ["0", "99999999999999999999"])
def test_a_shard_size_out_of_range_is_refused(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = f"--shard-size {size}: must be a whole number from 1 to 1,000,000,000"
    assert error in error_of([*PREDICT[:-1], size], capsys)


def test_another_run_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(1, PREDICT, monkeypatch)
    manifest = Path("classify/manifest.json")
    manifest.write_text(manifest.read_text() + "\n")
    assert "was started with another run" in error_of([*PREDICT, "--resume"], capsys)


def test_other_texts_do_not_go_on_but_later_ones_may_be_mended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Path("new.csv").read_text().splitlines(keepends=True)
    Path("new.csv").write_text("".join([*lines[:30], "a,bad,line\n", *lines[30:]]))
    assert error_of(PREDICT, capsys) == (
        "heedful: new.csv, line 31: 3 fields, expected 2 as in line 1; 20 answers are kept: the "
        "same command with --resume continues\n"
    )
    Path("new.csv").write_text("".join([*lines[:15], "the cat,animal\n", *lines[16:]]))
    assert error_of([*PREDICT, "--resume"], capsys) == (
        "heedful: answers.jsonl.parts was started on other data: some of the items 11 to 20 have "
        "changed\n"
    )
    Path("new.csv").write_text("".join(lines))
    assert run([*PREDICT, "--resume"]) == 0
    assert OUT.read_text() == right()


def test_nothing_is_replaced_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    OUT.write_text("mine\n")
    assert "answers.jsonl exists; choose another name or give --overwrite" in error_of(
        PREDICT, capsys
    )
    assert run([*PREDICT, "--resume"]) == 0
    assert (
        capsys.readouterr().err
        == "answers.jsonl exists, so nothing is computed; --overwrite computes it again\n"
    )
    assert OUT.read_text() == "mine\n"
    assert "give one of them" in error_of([*PREDICT, "--resume", "--overwrite"], capsys)
    PARTS.mkdir()
    (PARTS / "mine").touch()
    assert "answers.jsonl.parts is in the way" in error_of([*PREDICT, "--overwrite"], capsys)
    shutil.rmtree(PARTS)
    assert run([*PREDICT, "--overwrite"]) == 0
    assert OUT.read_text() == right()
    folder = [*PREDICT[:5], "data", "--overwrite"]
    assert "--out data holds answer.jsonl, which would not be" in error_of(folder, capsys)


def test_what_was_stopped_is_replaced_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_after(1, [*PREDICT, "--all-scores"], monkeypatch)
    assert run([*PREDICT, "--overwrite"]) == 0
    assert OUT.read_text() == right()


def test_what_is_replaced_stands_until_all_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    OUT.write_text("mine\n")
    assert "no column 'texte'" in error_of([*PREDICT, "--overwrite", "--text", "texte"], capsys)
    assert (OUT.read_text(), PARTS.exists()) == ("mine\n", False)
    stop_after(2, [*PREDICT, "--overwrite"], monkeypatch)
    assert "give --resume to continue it" in error_of(PREDICT, capsys)
    assert run([*PREDICT, "--resume"]) == 0
    assert "continuing after 20 answers\n" in capsys.readouterr().err
    assert (OUT.read_text(), PARTS.exists()) == (right(), False)


def test_a_folder_is_finished_when_it_has_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    predict = [*PREDICT[:5], "folder"]
    folder = Path("folder")
    folder.mkdir()
    assert run([*predict, "--resume"]) == 0
    assert (folder / "new.jsonl").read_text() == right()
    assert run([*predict, "--resume"]) == 0
    assert (
        "folder exists, so nothing is computed; --overwrite computes it again\n"
        in capsys.readouterr().err
    )
    assert run([*predict, "--overwrite"]) == 0
    (folder / "new.jsonl").rename(folder / "other.jsonl")
    assert "folder holds no new.jsonl" in error_of([*predict, "--resume"], capsys)
    assert "folder exists; choose another name" in error_of(predict, capsys)
    shutil.rmtree(folder)
    folder.touch()
    assert "folder is a file" in error_of([*predict, "--resume"], capsys)
    OUT.mkdir()
    assert "answers.jsonl is a folder" in error_of([*PREDICT, "--resume"], capsys)


def test_a_job_that_is_started_again_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    OUT.write_text("to be replaced\n")
    stop_after(2, [*PREDICT, "--overwrite"], monkeypatch)
    capsys.readouterr()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert run([*PREDICT, "--overwrite"]) == 0
    assert "continuing after 20 answers\n" in capsys.readouterr().err
    assert OUT.read_text() == right()


def test_patterns_name_files_in_order() -> None:
    for number in (10, 2, 1):
        Path(f"part-{number:02d}.txt").write_text(f"the {'red ' * number}cat\n")
    words = ["predict", "classify", "--input", "part-*.txt", "new.csv", "--out", "answers"]
    assert run(words) == 0
    files = ["part-01.jsonl", "part-02.jsonl", "part-10.jsonl", "new.jsonl"]
    assert sorted(path.name for path in Path("answers").iterdir()) == sorted(files)
    tokens = [json.loads(Path("answers", name).read_text())["tokens_total"] for name in files[:3]]
    assert tokens == [3, 4, 12]
    whole = command([*words[:5], "--plain"])
    assert run([*words[:5], "--plain", "--out", "answers.txt"]) == 0
    assert Path("answers.txt").read_text() == whole
    command(["evaluate", "classify", "--data", "data/class*.csv"])
    assert json.loads(Path("classify/metrics.json").read_text())["data"] == ["data/classify.csv"]


def test_what_is_read_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("corpus.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
    words = ["predict", "embed", "--input", "new.csv", "--against", "corpus.jsonl"]
    line = error_of([*words, "--out", "./corpus.jsonl", "--overwrite"], capsys)
    assert "--out corpus.jsonl: corpus.jsonl is read from there; choose another name" in line
    words = ["evaluate", "classify", "--data", "n*.csv", "--predictions", "new.csv"]
    assert "--predictions new.csv: new.csv is read from there" in error_of(
        [*words, "--overwrite"], capsys
    )
    words = ["report", "classify", "--data", "n*.csv", "--out", "new.csv", "--overwrite"]
    assert "--out new.csv: a report is an HTML page" in error_of(words, capsys)
    with pytest.raises(UserError, match=r"^predictions new.csv: new.csv is read from there"):
        heedful.evaluate("classify", "new.csv", predictions="new.csv", overwrite=True)
    assert Path("new.csv").read_text() == Path("data/classify.csv").read_text()
    assert Path("corpus.jsonl").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "a.csv", "--input", "new.csv"], "give a name that ends in .jsonl"),
        (["--out", "a.jsonl", "--input", "new.csv", "--plain"], "--plain writes text"),
        (["--out", "a.jsonl", "the cat"], "--out is for the answers to --input FILES"),
        (["--out", "no/a.jsonl", "--input", "new.csv"], "there is no folder 'no'"),
        (["--input", "new.csv", "--out", "new.csv", "--overwrite"], "new.csv is read from there"),
        (["--input", "data/*.txt", "--out", "data", "--overwrite"], "is read from there"),
        (["--input", "new.csv", "--out", "a.txt.gz", "--plain"], "answers are not compressed"),
        (["--input", "new.csv", "--out", "pipe.jsonl", "--overwrite"], "not a regular file"),
        (["--resume", "the cat"], "--resume is for the files of --out"),
        (["--input", "new*.tsv", "--out", "a"], "new*.tsv: no file matches this pattern"),
        (
            ["--input", "new.csv", "data/new.csv", "--out", "a"],
            "new.csv and data/new.csv would both write new.jsonl",
        ),
    ],
)
def test_what_cannot_be_written_is_said_at_once(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy("new.csv", "data/new.csv")
    os.mkfifo("pipe.jsonl")
    assert message in error_of(["predict", "classify", *words], capsys)
    assert Path("new.csv").is_file()
    assert Path("data/pretrain.txt").is_file()
