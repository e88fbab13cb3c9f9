"""``heedful evaluate --predictions --resume``: a stop loses only the current shard."""

import json
from pathlib import Path

import pytest
from tests.golden.asking import command
from tests.golden.copies import ONE_OF_EACH, copy_to

from heedful import evaluation
from heedful.cli import run
from heedful.commands.stored_outputs import StoredOutputs
from heedful.predictor import Predictor


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("kept"))


@pytest.fixture(autouse=True)
def small_shards(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)
    monkeypatch.setattr(evaluation, "RECORDS_PER_STEP", 7)


def words(name: str, path: Path, *options: str) -> list[str]:
    return ["evaluate", *ONE_OF_EACH[name], "--predictions", str(path), *options]


def stop_in_third(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Evaluate until a third shard would be stored."""
    add, calls = StoredOutputs.put, [0]

    def stopping(*arguments: object) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        add(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(StoredOutputs, "put", stopping)
        return run(asked)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_task_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    once = json.loads(command(words(name, whole)))
    assert stop_in_third(words(name, stopped), monkeypatch) == 130
    assert (
        "14 answers are kept: the same command with --resume continues" in capsys.readouterr().err
    )
    assert not stopped.exists()
    computed = Predictor.computed
    items = [0]

    def counting(predictor: Predictor, encoded: list, *rest: object, **more: object) -> object:
        items[0] += len(encoded)
        return computed(predictor, encoded, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Predictor, "computed", counting)
    again = json.loads(command(words(name, stopped, "--resume")))
    assert stopped.read_text("utf-8") == whole.read_text("utf-8")
    assert items[0] == len(whole.read_text("utf-8").splitlines()) - 14
    for scores in (once, again):
        scores.pop("tokens_per_second", None)
    assert again == once
    assert {path.name for path in tmp_path.iterdir()} == {"whole.jsonl", "stopped.jsonl"}


@pytest.mark.parametrize(
    "place",
    [
        "heedful.evaluation.Evaluation.scores",
        "heedful.commands.evaluate._write",
        "heedful.cli.using.print_table",
        "heedful.commands.parts.PartialOutput.discard",
    ],
)
@pytest.mark.parametrize("before", ["", "mine"])
def test_a_stop_before_the_scores_are_told_loses_nothing(
    place: str,
    before: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "answers.csv"
    asked = words("classify", path)
    once = json.loads(command(words("classify", tmp_path / "once.csv")))
    if before:
        path.write_text(before)
    with monkeypatch.context() as patch:
        patch.setattr(place, killed)
        with pytest.raises(MemoryError):
            run([*asked, "--overwrite"] if before else asked)
    assert path.read_bytes() == (tmp_path / "once.csv").read_bytes()
    monkeypatch.setattr(Predictor, "computed", None)  # nothing is computed again
    capsys.readouterr()
    assert run([*asked, "--resume"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == once
    assert f"48 answers written to {path}" in err
    assert {path.name for path in tmp_path.iterdir()} == {"once.csv", "answers.csv"}


def killed(*_: object) -> None:
    """Simulate a process that is killed."""
    raise MemoryError


def test_a_file_that_holds_something_else_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.csv"
    asked = words("classify", path)
    stop_in_third(asked, monkeypatch)
    path.write_text("mine")
    capsys.readouterr()
    assert run([*asked, "--resume"]) == 2
    assert "answers.csv: the existing file holds other answers; move it" in (
        capsys.readouterr().err
    )
    assert path.read_text() == "mine"
    path.unlink()
    assert run([*asked, "--resume"]) == 0
    assert len(path.read_text("utf-8").splitlines()) == 49


def test_a_job_that_is_started_again_tells_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = words("classify", tmp_path / "answers.csv")
    with monkeypatch.context() as patch:
        patch.setattr(evaluation.Evaluation, "scores", killed)
        with pytest.raises(MemoryError):
            run(asked)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert json.loads(command(asked))["items"] == 48


def test_what_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = words("classify", tmp_path / "answers.csv")
    stop_in_third(asked, monkeypatch)
    data = Path("data/classify.csv")
    text = data.read_text("utf-8")
    for change, options, message in [
        ("", [], "give --resume to continue it"),
        ("", ["--resume", "--max-length", "9"], "was started without --max-length, now it is 9"),
        ("the very red", ["--resume"], "was started on other data: some of the items 1 to 7 have"),
    ]:
        data.write_text(text.replace(change, "the", 1) if change else text, "utf-8")
        assert run([*asked, *options]) == 2
        assert message in capsys.readouterr().err
        data.write_text(text, "utf-8")
    assert run([*asked, "--resume"]) == 0
    capsys.readouterr()
    assert run([*asked, "--resume"]) == 0
    told = "exists, so nothing is computed; --overwrite computes it again\n"
    assert capsys.readouterr() == ("", f"{tmp_path / 'answers.csv'} {told}")
    assert run(["evaluate", *ONE_OF_EACH["classify"], "--resume"]) == 2
    assert "--resume is for the file of --predictions" in capsys.readouterr().err
    assert run(["evaluate", *ONE_OF_EACH["classify"], "--overwrite"]) == 2
    assert "--overwrite is for the files of --predictions and --pic" in capsys.readouterr().err
