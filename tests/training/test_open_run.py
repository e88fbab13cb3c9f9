"""Which runs may resume in a folder."""

import errno
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden.asking import command
from tests.golden.copies import LATEST, ONE_OF_EACH
from tests.holding import held_elsewhere

import heedful
from heedful import cli
from heedful.checkpoints.opening import (
    after_restart,
    check_run,
    discarded_unless_prepared,
    forget_old,
    held,
    make_run,
)
from heedful.checkpoints.runs import RECORD, RunRecord, others, read_record
from heedful.commands.teacher_targets import FOLDER as RETOLD
from heedful.errors import UserError
from heedful.files import MANIFEST
from heedful.locks import LOCK
from heedful.settings import RunSettings
from heedful.tasks.pretrain import CORPUS
from heedful.tasks.translate import VOCABULARY
from heedful.training import run as run_module
from heedful.training.prune import CHOSEN

CHECKPOINTS = "checkpoints"


def record(task: str, dev: list[str] | None = None) -> RunRecord:
    files = dev and [{"file": f"{name}.csv", "bytes": 1, "sha256": name} for name in dev]
    return RunRecord(task=task, goal={}, max_length=8, settings={}, data=[], versions={}, dev=files)


def as_job(patch: pytest.MonkeyPatch, name: str, restarts: int) -> None:
    patch.setenv("TORCHELASTIC_RUN_ID", name)
    patch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_started_again_goes_on_with_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    asked = RunSettings(out=tmp_path / "run", overwrite=overwrite)
    going_on = RunSettings(out=tmp_path / "run", resume=True)
    as_job(monkeypatch, "one", 0)
    assert after_restart(asked, first=True) == asked
    as_job(monkeypatch, "one", 1)
    # Killed before it made the run.
    assert after_restart(asked, first=True) == asked
    make_run(asked, record("regress"))
    as_job(monkeypatch, "one", 2)
    assert after_restart(asked, first=True) == after_restart(asked, first=False) == going_on
    as_job(monkeypatch, "two", 1)
    assert after_restart(asked, first=True) == asked
    # A new job of the same name; the first process alone takes the old one's mark away.
    for first, restarts, expected in [(False, 0, asked), (False, 1, going_on), (True, 0, asked)]:
        as_job(monkeypatch, "one", restarts)
        assert after_restart(asked, first=first) == expected
    as_job(monkeypatch, "one", 1)
    assert after_restart(asked, first=True) == asked


def test_without_torchrun_nothing_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    settings = RunSettings(out=tmp_path / "run")
    assert after_restart(settings, first=True) == settings
    make_run(settings, record("regress"))
    assert [path.name for path in settings.out.iterdir()] == [RECORD]


def test_a_run_that_began_meanwhile_is_not_mixed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, load = tmp_path / "run", run_module._start

    def loading(*arguments: Any) -> Any:
        make_run(RunSettings(out=out), record("regress"))
        return load(*arguments)

    monkeypatch.setattr(run_module, "_start", loading)
    data, model = LATEST / "data" / "classify.csv", str(LATEST / "body")
    with pytest.raises(UserError, match="run holds an unfinished run"):
        heedful.train("classify", train=data, model=model, out=out, steps=1)
    assert read_record(out) == record("regress")


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_two_processes_do_not_train_in_one_folder(tmp_path: Path, options: dict[str, bool]) -> None:
    out = tmp_path / "run"
    data, model = LATEST / "data" / "classify.csv", str(LATEST / "body")
    asked: dict[str, Any] = {"train": data, "model": model, "out": out, "steps": 1}
    if options:
        heedful.train("classify", **asked)
        (out / MANIFEST).unlink()  # as if killed just before it was finished
    with held_elsewhere(out):
        before = sorted(out.rglob("*"))
        with pytest.raises(UserError, match="run: another process is training there; wait for it"):
            heedful.train("classify", **asked, **options)
        assert sorted(out.rglob("*")) == before
    heedful.train("classify", **asked, **options)
    assert (out / MANIFEST).is_file()
    assert not (out / LOCK).exists()


def test_a_run_that_is_overwritten_stays_held(tmp_path: Path) -> None:
    out = tmp_path / "run"
    make_run(RunSettings(out=out), record("regress"))
    with held(out):
        lock = (out / LOCK).stat()
        make_run(RunSettings(out=out, overwrite=True), record("regress"))
        assert os.path.samestat((out / LOCK).stat(), lock)
        forget_old(out)
    assert [path.name for path in out.iterdir()] == [RECORD]


def test_a_folder_that_was_held_for_nothing_is_not_left(tmp_path: Path) -> None:
    with held(tmp_path / "folder" / "run"):
        pass
    assert not (tmp_path / "folder" / "run").exists()


def test_a_link_to_a_folder_that_is_not_there_yet_makes_it(tmp_path: Path) -> None:
    link = tmp_path / "run"
    link.symlink_to("disk/run")
    with held(link):
        make_run(RunSettings(out=link), record("regress"))
    assert (tmp_path / "disk" / "run" / RECORD).is_file()
    assert link.is_symlink()
    link.unlink()
    link.symlink_to("run")
    with pytest.raises((UserError, OSError), match=r"itself|Too many levels"), held(link):
        pass


def test_a_run_goes_on_with_its_own_task_only(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert check_run(RunSettings(out=run), record("regress"))
    assert not run.exists()
    make_run(RunSettings(out=run), record("regress"))
    assert check_run(RunSettings(out=run, resume=True), record("regress"))
    with pytest.raises(UserError, match="is a run of train regress, not of train generate"):
        check_run(RunSettings(out=run, resume=True), record("generate"))


def test_a_run_goes_on_with_its_own_development_data_only(tmp_path: Path) -> None:
    asked = RunSettings(out=tmp_path / "run", resume=True)
    make_run(asked, record("regress", dev=["one", "two"]))
    assert check_run(asked, record("regress", dev=["one", "two"]))
    for dev, names in ((["one", "three"], "three.csv, two.csv"), (["two"], "one.csv")):
        said = f"was started with other data of --dev: its files have changed: {names}$"
        with pytest.raises(UserError, match=said):
            check_run(asked, record("regress", dev=dev))
    written = json.loads((asked.out / RECORD).read_text())
    del written["dev"]  # as older versions wrote it
    (asked.out / RECORD).write_text(json.dumps(written))
    assert check_run(asked, record("regress", dev=["three"]))


def test_a_constant_run_goes_on_without_the_warm_up_that_older_versions_ignored(
    tmp_path: Path,
) -> None:
    asked = RunSettings(out=tmp_path / "run", resume=True)
    old, new = (
        replace(record("regress"), settings={"schedule": "constant", "warmup": warmup})
        for warmup in (4, 0.1)
    )
    make_run(asked, old)
    assert check_run(asked, new)


@pytest.mark.parametrize(
    ("key", "old", "new", "said"),
    [
        (
            "phrases",
            {"file": "a/phrases.txt", "bytes": 1, "sha256": "one"},
            {"file": "a/phrases.txt", "bytes": 1, "sha256": "two"},
            "was started with other --phrases: its files have changed: a/phrases.txt$",
        ),
        ("tokenizer", "one", "two", "with another tokenizer: its vocabulary has changed$"),
        (
            "model",
            {"hidden_dropout_prob": 0.1, "hidden_size": 8},
            {"hidden_dropout_prob": 0.5, "hidden_size": 8},
            "from another --model: its hidden_dropout_prob was 0.1, now it is 0.5; give --overwr",
        ),
    ],
)
def test_a_run_goes_on_with_its_own_tokenizer_and_phrases_only(
    tmp_path: Path, key: str, old: Any, new: Any, said: str
) -> None:
    asked = RunSettings(out=tmp_path / "run", resume=True)
    make_run(asked, replace(record("regress"), **{key: old}))
    for same in (old, None):  # None before the tokenizer is loaded
        assert check_run(asked, replace(record("regress"), **{key: same}))
    with pytest.raises(UserError, match=said):
        check_run(asked, replace(record("regress"), **{key: new}))
    written = json.loads((asked.out / RECORD).read_text())
    del written[key]  # as older versions wrote it
    (asked.out / RECORD).write_text(json.dumps(written))
    assert check_run(asked, replace(record("regress"), **{key: new}))


def test_a_run_does_not_go_on_with_another_vocabulary(tiny_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    asked: dict[str, Any] = {"model": str(model), "out": tmp_path / "run", "steps": 1}
    asked["train"] = LATEST / "data" / "classify.csv"
    heedful.train("classify", **asked)
    (tmp_path / "run" / MANIFEST).unlink()  # as if killed just before it was finished
    first, *rest = (model / "vocab.txt").read_text().splitlines()
    words = [word for word in rest if not word.startswith("[")]
    special = [first, *(word for word in rest if word.startswith("["))]
    (model / "vocab.txt").write_text("\n".join([*special, *reversed(words), ""]))
    with pytest.raises(UserError, match="run was started with another tokenizer: its voc"):
        heedful.train("classify", **asked, resume=True)


def test_a_run_does_not_go_on_with_a_model_of_another_shape(
    tiny_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    asked: dict[str, Any] = {"model": str(model), "out": tmp_path / "run", "steps": 1}
    asked["train"] = LATEST / "data" / "classify.csv"
    heedful.train("classify", **asked)
    (tmp_path / "run" / MANIFEST).unlink()  # as if killed just before it was finished
    config = json.loads((model / "config.json").read_text())
    config["layer_norm_eps"] = 0.5
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"its layer_norm_eps was 1e-12, now it is 0\.5; give"):
        heedful.train("classify", **asked, resume=True)


@pytest.mark.parametrize(("key", "value"), [("task", 3), ("goal", []), ("max_length", "8")])
def test_a_record_of_other_kinds_is_damaged(key: str, value: Any, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps(asdict(record("regress")) | {key: value}))
    with pytest.raises(UserError, match=f"heedful.json: '{key}' is "):
        read_record(tmp_path)


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("error", [UserError, KeyboardInterrupt])
def test_a_run_is_there_again_if_the_one_in_its_place_is_not_prepared(
    tmp_path: Path, error: type[BaseException], link: bool
) -> None:
    run = tmp_path / "run"
    make_run(RunSettings(out=run), record("regress"))
    (run / "mine.txt").write_text("kept", encoding="utf-8")
    out = tmp_path / "link" if link else run
    if link:
        out.symlink_to(run)
    asked = RunSettings(out=out, overwrite=True)

    def fail() -> None:
        with discarded_unless_prepared(out):
            make_run(asked, record("classify"))
            assert read_record(out).task == "classify"
            raise error

    with pytest.raises(error):
        fail()
    assert read_record(run).task == "regress"
    assert (run / "mine.txt").read_text(encoding="utf-8") == "kept"
    with discarded_unless_prepared(out):
        make_run(asked, record("classify"))
        forget_old(out)
    assert read_record(run).task == "classify"
    assert {path.name for path in run.iterdir()} == {RECORD, "mine.txt"}
    assert {path.name for path in tmp_path.iterdir()} == {"run", out.name}


def test_a_run_that_cannot_be_put_aside_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))
    before = {path.name for path in run.iterdir()}
    monkeypatch.setattr(Path, "rename", _refused)
    with pytest.raises(PermissionError), discarded_unless_prepared(run):
        make_run(RunSettings(out=run, overwrite=True), record("classify"))
    assert {path.name for path in run.iterdir()} == before


def _refused(path: Path, target: Path) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_a_run_that_goes_on_is_not_deleted_with_what_else_is_there(tmp_path: Path) -> None:
    asked = RunSettings(out=tmp_path / "run", resume=True)
    make_run(asked, record("regress"))
    (asked.out / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError), discarded_unless_prepared(asked.out):
        raise UserError
    assert (asked.out / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert read_record(asked.out).task == "regress"


@pytest.mark.parametrize("words", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_all_that_a_run_holds_is_part_of_it(words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(LATEST / "data", tmp_path / "data")
    run = Path(shutil.copytree(LATEST / words[0], tmp_path / "run"))
    if not (run / RECORD).is_file():
        pytest.skip("a folder of another program")
    data = [str(tmp_path / word) if word.startswith("data/") else word for word in words[1:]]
    command(["evaluate", str(run), *data])
    command(["report", str(run)])
    for name in (CHECKPOINTS, CORPUS, VOCABULARY, RETOLD, CHOSEN, "tensorboard", ".data.x.partial"):
        (run / name).touch()
    assert others(run) == []
    (run / "notes.txt").touch()
    (run / "onnx").mkdir()
    assert [path.name for path in others(run)] == ["notes.txt", "onnx"]


def test_files_that_a_killed_process_moved_are_part_of_a_run(tmp_path: Path) -> None:
    run = Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))
    (run / ".finished.7.partial").mkdir()
    (run / MANIFEST).rename(run / ".finished.7.partial" / MANIFEST)
    assert others(run) == []


def test_a_new_run_leaves_what_is_no_part_of_the_old_one(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = tmp_path / "run", LATEST / "data/classify.csv"
    train = ["train", "classify", "--model", str(tiny_model), "--train", str(data), "--steps", "1"]
    command([*train, "--out", str(run)])
    command([*train, "--out", str(run / "other-run")])
    command(["evaluate", str(run), "--data", str(data), "--picture", str(run / "confusion.png")])
    (run / "notes.txt").write_text("mine", encoding="utf-8")
    kept = {"other-run", "confusion.png", "notes.txt"}
    made = {path.name for path in run.iterdir()} - kept - {"metrics.json"}
    command([*train, "--seed", "1", "--out", str(run), "--overwrite"])
    assert {path.name for path in run.iterdir()} == made | kept
    assert read_record(run).settings["seed"] == 1
    assert (run / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert read_record(run / "other-run").settings["seed"] == 0
    assert [*tmp_path.iterdir()] == [run]

    (run / MANIFEST).write_text("{", encoding="utf-8")
    capsys.readouterr()
    assert cli.run([*train, "--out", str(run), "--overwrite"]) == 2
    assert str(run / MANIFEST) in capsys.readouterr().err
    assert kept < {path.name for path in run.iterdir()}


@pytest.mark.parametrize("key", ["data", "dev", "model", "vocabulary", "teacher", "phrases"])
def test_what_the_new_run_reads_is_not_overwritten(tmp_path: Path, key: str) -> None:
    run = tmp_path / "run"
    make_run(RunSettings(out=run), record("regress"))
    within, beside = run / "inner" / "file", tmp_path / "beside"
    within.parent.mkdir()
    within.write_text("text", encoding="utf-8")
    beside.write_text("text", encoding="utf-8")
    asked = RunSettings(out=run, overwrite=True)

    def reading(path: Path) -> RunRecord:
        new = record("regress")
        if key in ("data", "dev"):
            return replace(new, **{key: [{"file": str(path), "bytes": 4, "sha256": "0"}]})
        return replace(new, settings={key: str(path)})

    for path in (run if key == "model" else within, within):
        with pytest.raises(UserError, match="is read from there; choose another name"):
            check_run(asked, reading(path))
    assert check_run(asked, reading(beside))


def test_a_finished_run_outlives_what_cannot_take_its_place(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    words = ["train", "classify", "--model", str(tiny_model), "--steps", "1", "--overwrite"]
    words += ["--train", str(LATEST / "data/classify.csv"), "--out", str(run)]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch.utils.tensorboard", None)
        assert cli.run([*words, "--tensorboard"]) == 2
    assert "curves in TensorBoard need tensorboard: pip" in capsys.readouterr().err

    def refuse(*_: object) -> None:
        raise UserError("no such training")

    monkeypatch.setattr(run_module, "trained", refuse)  # after all the data is prepared
    assert cli.run(words) == 2
    assert capsys.readouterr().err.endswith("heedful: no such training\n")
    after = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert after == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
