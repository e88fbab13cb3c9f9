"""Open a run folder to start a new run or to resume one."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heedful.checkpoints import runs, steps
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError, join_names, other_option
from heedful.files import check_not_input, symlink_target, with_file_name
from heedful.locks import LOCK, locked
from heedful.reading.frames import IN_MEMORY, data_name
from heedful.settings import RunSettings

_FREE_SETTINGS = frozenset(
    {
        "max_minutes",
        "checkpoint_every",
        "keep_checkpoints",
        "tensorboard",
        "workers",
        "corpus",
        "shard",
    }
)
"""Settings that may change when a run is resumed: they do not affect the result."""

_JOB_FILE = ".torchelastic"
"""File of a run with the id of the ``torchrun`` job that started or resumed it."""


def after_restart(settings: RunSettings, *, first: bool) -> RunSettings:
    """Make a job that ``torchrun`` restarts resume its own run.

    Args:
        settings: the settings of the command. Unchanged after a restart, they would reject the
            job's own run or delete it.
        first: whether this process writes the run.
    """
    job, job_file = _job_id(), settings.out / _JOB_FILE
    if job is None:
        return settings
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        if first and job_file.is_file():  # the file of another job
            job_file.unlink()
    elif job_file.is_file() and job_file.read_text(encoding="utf-8") == job:
        return replace(settings, resume=True, overwrite=False)
    return settings


def check_run(settings: RunSettings, record: RunRecord) -> bool:
    """Check that a run may be written to its folder, without changing anything.

    Args:
        settings: the folder, and whether to resume or overwrite a run in it.
        record: the record of the new run.

    Returns:
        False if the run to resume is already finished, so that there is nothing to do.

    Raises:
        UserError: the folder is not empty and no flag says what to do, the run in it has other
            settings or data, the new run reads files that ``overwrite`` would delete, or these
            files cannot be determined.
    """
    run = settings.out
    if settings.resume and settings.overwrite:
        raise UserError("--resume continues a run and --overwrite starts over: give one of them")
    if run.is_file():
        raise UserError(f"--out {run} is a file; give a folder")
    is_run = (run / runs.RECORD).is_file()
    if settings.overwrite and is_run:
        check_not_input("--out", run, _inputs(record))
        runs.others(run)
        return True
    if run.is_dir() and any(path.name != LOCK for path in run.iterdir()):
        if not is_run and (run / "checkpoints").is_dir():
            raise UserError(
                f"--out {run} holds the checkpoints of a run, but no {runs.RECORD}, without which "
                "it cannot be resumed; choose another folder"
            )
        if not is_run:
            raise UserError(f"--out {run} holds other files; choose another folder")
        if not settings.resume:
            state = "a finished" if runs.is_finished(run) else "an unfinished"
            raise UserError(
                f"--out {run} holds {state} run; give --resume to continue it, --overwrite to "
                "start over, or another folder"
            )
        _check_same_run(run, runs.read_record(run), record)
        return not runs.is_finished(run)
    return True


def check_goal(settings: RunSettings, record: RunRecord) -> None:
    """Check that a resumed run has the same goal: the task fields not in its settings.

    Args:
        settings: the folder, and whether to resume or overwrite a run in it.
        record: the record of the new run.

    Raises:
        UserError: the run in the folder has another goal.
    """
    run = settings.out
    if settings.overwrite or not (run / runs.RECORD).is_file():
        return
    before = runs.read_record(run).goal  # empty in runs of earlier versions
    for key, now in record.goal.items():
        if before.get(key, now) != now:
            raise UserError(
                f"{run} has another training goal: its {key!r} is {before[key]}, now it would be "
                f"{now}"
            )


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Lock a folder for training, and create it if it does not exist.

    Raises:
        UserError: another process is training in the folder.
    """
    folder = symlink_target(run)
    with with_file_name(run):
        folder.mkdir(parents=True, exist_ok=True)
    otherwise = (
        f"--out {run}: another process is training there; wait for it, or choose another folder"
    )
    try:
        with locked(run, otherwise):
            yield
    finally:
        with suppress(OSError):  # the folder has a run in it, or another process uses it
            folder.rmdir()


def make_run(settings: RunSettings, record: RunRecord) -> None:
    """Prepare a folder for training after `check_run` has accepted it.

    A run to overwrite is moved aside under a hidden name, until `forget_old` deletes it or
    `discarded_unless_prepared` restores it. If the process is killed before that, `bring_back`
    restores it.
    """
    run = settings.out.resolve()
    if settings.overwrite and (run / runs.RECORD).is_file():
        old = run.rename(_aside_path(run))
        run.mkdir()
        if (old / LOCK).is_file():  # this process holds the lock
            (old / LOCK).rename(run / LOCK)
    run.mkdir(parents=True, exist_ok=True)
    runs.clear_partial(run)
    if not (run / runs.RECORD).is_file():
        runs.write_record(run, record)
    if (job := _job_id()) is not None:
        with with_file_name(run / _JOB_FILE):
            (run / _JOB_FILE).write_text(job, encoding="utf-8")


@contextmanager
def discarded_unless_prepared(run: Path) -> Iterator[None]:
    """Delete a new run folder if its data turns out to be invalid before training starts.

    So the same command works once the data is fixed. A run with training progress is kept, and so
    is a folder with other files. A run that was to be overwritten is restored.
    """
    try:
        yield
    except BaseException:
        if not _has_progress(run):  # otherwise it is an old run that could not be moved aside
            if old := _runs_aside(run):
                _restore(run, old[0])
            elif not runs.others(run):
                shutil.rmtree(run.resolve(), ignore_errors=True)
        raise


def bring_back(settings: RunSettings, record: RunRecord, say: Callable[[str], None]) -> None:
    """Restore a run that was to be overwritten if the overwriting process was killed.

    If the new run is resumed, as after a restart by ``torchrun``, it still replaces the old one. If
    the new run has training progress, only files that do not belong to the old run are restored.

    Args:
        settings: the folder, and whether to resume or overwrite a run in it.
        record: the record of the run to start.
        say: called with each line of output for the user.

    Raises:
        UserError: another process is training in the folder, perhaps the one that moved the old
            run aside.
    """
    run = settings.out
    if run.is_file() or not _runs_aside(run):
        return
    with held(run):
        for old in _runs_aside(run):
            if _has_progress(run):
                forget_old(run)
            elif not (settings.resume and _describes_run(run, record)):
                _restore(run, old)
                say(f"{run}: the old run is restored, because the new one saved no checkpoint")


def forget_old(run: Path) -> None:
    """Delete the run that was moved aside, if any; restore files that do not belong to it."""
    for old in _runs_aside(run):
        _move_others(old, run)
        # Rename first: a killed process must not leave a folder that looks like a whole run.
        renamed = old.rename(run.resolve() / f".old.{os.getpid()}.partial")
        shutil.rmtree(renamed)


def tidy_finished(run: Path) -> None:
    """Delete the resume state of a finished run that was killed before it could do so."""
    runs.clear_partial(run)
    steps.prune(run, keep=1)


def _aside_path(run: Path) -> Path:
    """Return the path for the run to overwrite until the new one is prepared."""
    run = run.resolve()
    return run.with_name(f".{run.name}.{os.getpid()}.old")


def _runs_aside(run: Path) -> list[Path]:
    """Return the runs that were moved aside and still exist, newest first."""
    run = run.resolve()
    name = re.compile(rf"\.{re.escape(run.name)}\.\d+\.old")
    beside = run.parent.iterdir() if run.parent.is_dir() else ()
    old_runs = [
        path for path in beside if name.fullmatch(path.name) and (path / runs.RECORD).is_file()
    ]
    # Moving the lock out of a folder sets its modification time.
    return sorted(old_runs, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _restore(run: Path, old: Path) -> None:
    """Restore a run that was moved aside, in place of a new run without training progress."""
    run = run.resolve()
    _move_others(run, old)
    if (run / LOCK).is_file():  # this process holds the lock
        (run / LOCK).replace(old / LOCK)
    shutil.rmtree(run, ignore_errors=True)
    old.rename(run)


def _move_others(source: Path, target: Path) -> None:
    """Move files that do not belong to a run into another folder, without replacing any file."""
    for path in runs.others(source):
        destination = target / path.name
        while destination.exists() or destination.is_symlink():
            destination = destination.with_name(f"{destination.name}.old")
        path.rename(destination)


def _has_progress(run: Path) -> bool:
    return runs.is_finished(run) or bool(steps.steps(run))


def _describes_run(run: Path, record: RunRecord) -> bool:
    """Return whether a record describes the run in a folder."""
    try:
        _check_same_run(run, runs.read_record(run), record)
    except UserError:
        return False
    return True


@contextmanager
def data_folder(run: Path) -> Iterator[Path]:
    """Yield a temporary folder for the prepared data of a run."""
    with TemporaryDirectory(
        prefix=".data.", suffix=".partial", dir=run, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def _job_id() -> str | None:
    """Return the id of this process's ``torchrun`` job, if any; ids may be reused."""
    return os.environ.get("TORCHELASTIC_RUN_ID")


def _inputs(record: RunRecord) -> Iterator[Path]:
    """Yield the files and folders that a run reads."""
    for item in (*record.data, *(record.dev or ())):
        yield Path(item["file"])
    for key in ("model", "vocabulary", "teacher", "phrases"):
        path = Path(record.settings.get(key) or "")
        if path.name and path.exists():  # otherwise a name that heedful knows
            yield path


def _check_same_run(run: Path, old: RunRecord, new: RunRecord) -> None:
    """Check that a resumed run has the same settings and data; otherwise it would mix both."""
    if old.task != new.task:
        raise UserError(f"{run} is a run of train {old.task}, not of train {new.task}")
    free_settings = _FREE_SETTINGS
    if new.settings.get("average", 1) > 1:  # the model is the average of the last checkpoints
        free_settings -= {"checkpoint_every"}
    if new.settings.get("schedule") == "constant":  # older versions accepted any warm-up
        free_settings |= {"warmup"}
    for key in sorted(old.settings.keys() | new.settings.keys()):
        before, now = old.settings.get(key), new.settings.get(key)
        if key in ("train", "dev"):  # temporary files are compared below, by their contents
            before, now = (files and [data_name(file) for file in files] for files in (before, now))
        if key not in free_settings and before != now:
            raise other_option(run, key, before, now)
    _check_same_files(f"{run} was started on other training data", old.data, new.data)
    if old.dev is not None and new.dev is not None:
        _check_same_files(f"{run} was started with other data of --dev", old.dev, new.dev)
    if old.phrases is not None and new.phrases is not None:
        message = f"{run} was started with other --phrases"
        _check_same_files(message, [old.phrases], [new.phrases])
    if old.tokenizer is not None and new.tokenizer not in (None, old.tokenizer):
        raise UserError(f"{run} was started with another tokenizer: its vocabulary has changed")
    _check_same_model(run, old.model or {}, new.model or {})
    if (old.teacher or {}).get("sha256") != (new.teacher or {}).get("sha256"):
        raise UserError(f"{run} was started with another --teacher: its weights have changed")


def _check_same_model(run: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Check that the folder of ``--model`` was not replaced by another model."""
    for key in sorted(old.keys() & new.keys()):
        if old[key] != new[key]:
            raise UserError(
                f"{run} was started from another --model: its {key} was {old[key]!s:.80}, now it "
                f"is {new[key]!s:.80}; give --overwrite to start over"
            )


def _check_same_files(
    message: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> None:
    """Check that the contents of the files are unchanged; an error names the changed ones."""
    if [item["sha256"] for item in old] == [item["sha256"] for item in new]:
        return
    old_names, new_names = ({item["sha256"]: item["file"] for item in each} for each in (old, new))
    changed = {
        data_name((old_names | new_names)[digest]) for digest in old_names.keys() ^ new_names.keys()
    }
    if changed == {IN_MEMORY}:
        raise UserError(f"{message}: the {IN_MEMORY} has changed; give --overwrite to start over")
    names = f": {join_names(sorted(changed))}" if changed else ""
    raise UserError(f"{message}: its files have changed{names}")
