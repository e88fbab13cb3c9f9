"""A run moved aside to be overwritten comes back if the overwriting process was killed."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.copies import LATEST
from tests.holding import held_elsewhere

import heedful
from heedful.checkpoints import opening
from heedful.checkpoints.opening import bring_back, discarded_unless_prepared, make_run
from heedful.checkpoints.runs import RECORD, RunRecord, read_record, write_record
from heedful.errors import UserError
from heedful.files import MANIFEST
from heedful.settings import RunSettings

OLD = RunRecord(task="regress", goal={}, max_length=8, settings={"seed": 0}, data=[], versions={})
NEW = replace(OLD, settings={"seed": 1})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a run that a process was replacing when it was killed."""
    run = tmp_path / "run [1]"
    for folder, record in ((tmp_path / ".run [1].7.old", OLD), (run, NEW)):
        folder.mkdir()
        write_record(folder, record)
    (tmp_path / ".run [1].7.old" / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / ".run [1].7.old" / MANIFEST).write_text('{"files": {}}', encoding="utf-8")
    return run


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("begun", [True, False])
def test_the_old_run_comes_back(out: Path, flags: dict[str, bool], begun: bool) -> None:
    (out / "later.txt").touch()
    if not begun:
        (out / RECORD).unlink()
    lines: list[str] = []
    bring_back(RunSettings(out=out, **flags), OLD, lines.append)
    said = f"{out}: the old run is restored, because the new one saved no checkpoint"
    assert lines == [said]
    assert read_record(out) == OLD
    assert names(out) == {RECORD, MANIFEST, "notes.txt", "later.txt"}
    assert names(out.parent) == {out.name}


def test_the_old_run_comes_back_where_nothing_was_begun(out: Path) -> None:
    shutil.rmtree(out)
    bring_back(RunSettings(out=out), NEW, lambda line: None)
    assert read_record(out) == OLD


def test_a_new_run_that_goes_on_still_takes_the_place_of_the_old_one(out: Path) -> None:
    lines: list[str] = []
    asked = RunSettings(out=out, resume=True)  # as after a restart by torchrun
    bring_back(asked, NEW, lines.append)
    assert read_record(out) == NEW

    def fail() -> None:
        with discarded_unless_prepared(out):
            make_run(asked, NEW)
            raise UserError

    with pytest.raises(UserError):
        fail()
    assert read_record(out) == OLD
    assert lines == []
    assert names(out.parent) == {out.name}


def test_what_is_no_part_of_the_old_run_comes_back_where_the_new_one_learnt(out: Path) -> None:
    (out / "checkpoints" / "step-1").mkdir(parents=True)
    (out / "notes.txt").write_text("newer", encoding="utf-8")
    bring_back(RunSettings(out=out, resume=True), NEW, lambda line: None)
    assert read_record(out) == NEW
    assert names(out) == {RECORD, "checkpoints", "notes.txt", "notes.txt.old"}
    assert (out / "notes.txt").read_text(encoding="utf-8") == "newer"
    assert (out / "notes.txt.old").read_text(encoding="utf-8") == "mine"
    assert names(out.parent) == {out.name}


def test_the_old_run_stays_aside_while_the_new_one_is_prepared(out: Path) -> None:
    with held_elsewhere(out), pytest.raises(UserError, match="another process is training there"):
        bring_back(RunSettings(out=out, overwrite=True), NEW, lambda line: None)
    assert read_record(out) == NEW


def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".run.7.old").mkdir()
    (tmp_path / ".run.mine.old").mkdir()
    write_record(tmp_path / ".run.mine.old", OLD)
    bring_back(RunSettings(out=tmp_path / "run"), NEW, lambda line: None)
    assert names(tmp_path) == {".run.7.old", ".run.mine.old"}


def test_a_kill_while_the_old_run_is_deleted_leaves_no_half_of_it(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        (folder / MANIFEST).unlink()
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(MemoryError):
            opening.forget_old(out)
    asked = RunSettings(out=out, resume=True)
    bring_back(asked, OLD, lambda line: None)
    make_run(asked, NEW)
    assert read_record(out) == NEW
    assert names(out) == {RECORD, "notes.txt"}


_KILLED = """
import os, signal, sys
import heedful
from heedful.training import run

def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

run._examples = killed
out, data, model = sys.argv[1:]
heedful.train("classify", train=data, model=model, out=out, steps=1, seed=1, overwrite=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_overwrite_loses_nothing(tiny_model: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "run", LATEST / "data/classify.csv"
    heedful.train("classify", train=data, model=str(tiny_model), out=out, steps=1)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    before = names(out)
    command = [sys.executable, "-c", _KILLED, str(out), str(data), str(tiny_model)]
    for _ in range(2):
        assert subprocess.run(command, capture_output=True, check=False).returncode == -9
        assert names(tmp_path) > {out.name}
    with pytest.raises(UserError, match="holds a finished run"):
        heedful.train("classify", train=data, model=str(tiny_model), out=out, steps=1)
    assert names(out) == before
    assert read_record(out).settings["seed"] == 0
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    model = str(tiny_model)
    heedful.train("classify", train=data, model=model, out=out, steps=1, seed=1, resume=True)
    assert names(out) == before
    assert read_record(out).settings["seed"] == 1
    assert names(tmp_path) == {out.name}
