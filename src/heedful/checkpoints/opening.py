"""Opening a run folder, to start a run or to go on with one."""

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
from heedful.errors import UserError, listed, other_option
from heedful.files import naming, refuse_if_read
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
"""Settings that may change when a run goes on: they do not affect what it learns."""

_JOB = ".torchelastic"
"""File of a run that says which job of ``torchrun`` made it or went on with it."""


def after_restart(settings: RunSettings, *, first: bool) -> RunSettings:
    """Have a job that ``torchrun`` starts again go on with the run that it began.

    Args:
        settings: what the command says; started again, it would find the job's own run in the way,
            or delete it.
        first: whether this process writes the run.
    """
    job, mark = _job(), settings.out / _JOB
    if job is None:
        return settings
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        if first and mark.is_file():  # what stands there is another job's
            mark.unlink()
    elif mark.is_file() and mark.read_text(encoding="utf-8") == job:
        return replace(settings, resume=True, overwrite=False)
    return settings


def check_run(settings: RunSettings, record: RunRecord) -> bool:
    """Check that a run may be written to its folder; nothing is changed yet.

    Args:
        settings: the folder, and what to do with a run in it.
        record: the record of the new run.

    Returns:
        False if the run that ``resume`` goes on with is finished, so there is nothing to do.

    Raises:
        UserError: the folder is not empty and no flag says what to do, the run in it was started
            with other settings or data, the new one reads what ``overwrite`` would delete, or it
            cannot be told what that is.
    """
    run = settings.out
    if settings.resume and settings.overwrite:
        raise UserError("--resume goes on with a run and --overwrite starts anew: give one of them")
    if run.is_file():
        raise UserError(f"--out {run} is a file; give a folder")
    is_run = (run / runs.RECORD).is_file()
    if settings.overwrite and is_run:
        refuse_if_read("--out", run, _inputs(record))
        runs.others(run)
        return True
    if run.is_dir() and any(path.name != LOCK for path in run.iterdir()):
        if not is_run and (run / "checkpoints").is_dir():
            raise UserError(
                f"--out {run} holds the checkpoints of a run, but no {runs.RECORD}, without which "
                "it cannot go on; choose another folder"
            )
        if not is_run:
            raise UserError(f"--out {run} holds other files; choose another folder")
        if not settings.resume:
            state = "a finished" if runs.is_finished(run) else "an unfinished"
            raise UserError(
                f"--out {run} holds {state} run; give --resume to go on with it, "
                "--overwrite to start anew, or another folder"
            )
        _same_run(run, runs.read_record(run), record)
        return not runs.is_finished(run)
    return True


def check_goal(settings: RunSettings, record: RunRecord) -> None:
    """Check that a run that goes on learns what it learnt, where its settings do not say so.

    Args:
        settings: the folder, and what to do with a run in it.
        record: the record of the new run.

    Raises:
        UserError: the run in the folder learns something else.
    """
    run = settings.out
    if settings.overwrite or not (run / runs.RECORD).is_file():
        return
    before = runs.read_record(run).goal  # none in runs that earlier versions began
    for key, now in record.goal.items():
        if before.get(key, now) != now:
            raise UserError(
                f"{run} learns something else: its {key!r} is {before[key]}, now it would be {now}"
            )


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep other processes from training in a folder, which is made if there is none.

    Raises:
        UserError: another process trains there.
    """
    with naming(run):
        run.mkdir(parents=True, exist_ok=True)
    otherwise = (
        f"--out {run}: another process is training there; wait for it, or choose another folder"
    )
    try:
        with locked(run, otherwise):
            yield
    finally:
        with suppress(OSError):  # it holds a run, or another process does
            run.rmdir()


def make_run(settings: RunSettings, record: RunRecord) -> None:
    """Prepare a folder to train in, after `check_run` has accepted it.

    A run that is to be overwritten is put aside under a hidden name, until `forget_old` deletes it
    or `discarded_unless_prepared` puts it back. If the process is killed before that, `bring_back`
    finds it.
    """
    run = settings.out.resolve()
    if settings.overwrite and (run / runs.RECORD).is_file():
        old = run.rename(_aside(run))
        run.mkdir()
        if (old / LOCK).is_file():  # which this process holds
            (old / LOCK).rename(run / LOCK)
    run.mkdir(parents=True, exist_ok=True)
    runs.clear_partial(run)
    if not (run / runs.RECORD).is_file():
        runs.write_record(run, record)
    if (job := _job()) is not None:
        with naming(run / _JOB):
            (run / _JOB).write_text(job, encoding="utf-8")


@contextmanager
def discarded_unless_prepared(run: Path) -> Iterator[None]:
    """Delete a run folder again if its data turns out to be wrong before training starts.

    So the same command works once the file is mended. A run that has learnt is kept, as is a folder
    that holds anything else; a run that was to be overwritten is put back.
    """
    try:
        yield
    except BaseException:
        if not _has_learnt(run):  # else it is one that could not be put aside
            if old := _put_aside(run):
                _put_back(run, old[0])
            elif not runs.others(run):
                shutil.rmtree(run.resolve(), ignore_errors=True)
        raise


def bring_back(settings: RunSettings, record: RunRecord, say: Callable[[str], None]) -> None:
    """Put back a run that was to be overwritten where the process that did so was killed.

    Not where the new run goes on, as after a restart by ``torchrun``: that one still takes its
    place. Where the new run has learnt, what is no part of the old one alone comes back.

    Args:
        settings: the folder, and what to do with a run in it.
        record: the record of the run that the command asks for.
        say: takes each line meant for the user.

    Raises:
        UserError: another process trains there: it may be the one that put the old run aside.
    """
    run = settings.out
    if run.is_file() or not _put_aside(run):
        return
    with held(run):
        for old in _put_aside(run):
            if _has_learnt(run):
                forget_old(run)
            elif not (settings.resume and _is_begun(run, record)):
                _put_back(run, old)
                say(
                    f"{run}: the run that was to be overwritten is back: the new one learnt nothing"
                )


def forget_old(run: Path) -> None:
    """Delete the run that was put aside, if one was; what is no part of it comes back."""
    for old in _put_aside(run):
        _move_others(old, run)
        # A process that is killed meanwhile leaves nothing that would be taken for a whole run.
        gone = old.rename(run.resolve() / f".old.{os.getpid()}.partial")
        shutil.rmtree(gone)


def tidy_finished(run: Path) -> None:
    """Delete what a finished run needed to go on, if it was killed before it could do so."""
    runs.clear_partial(run)
    steps.prune(run, keep=1)


def _aside(run: Path) -> Path:
    """Return where the run that is to be overwritten stands until the new one is prepared."""
    run = run.resolve()
    return run.with_name(f".{run.name}.{os.getpid()}.old")


def _put_aside(run: Path) -> list[Path]:
    """Return the runs that were put aside and still stand there, the last first."""
    run = run.resolve()
    name = re.compile(rf"\.{re.escape(run.name)}\.\d+\.old")
    beside = run.parent.iterdir() if run.parent.is_dir() else ()
    old_runs = [
        path for path in beside if name.fullmatch(path.name) and (path / runs.RECORD).is_file()
    ]
    # A folder changes when the lock is taken out of it.
    return sorted(old_runs, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _put_back(run: Path, old: Path) -> None:
    """Give a run that was put aside its place again, in which nothing has been learnt."""
    run = run.resolve()
    _move_others(run, old)
    if (run / LOCK).is_file():  # which this process holds
        (run / LOCK).replace(old / LOCK)
    shutil.rmtree(run, ignore_errors=True)
    old.rename(run)


def _move_others(source: Path, target: Path) -> None:
    """Move what is no part of a run to another one, where it replaces nothing."""
    for path in runs.others(source):
        free = target / path.name
        while free.exists() or free.is_symlink():
            free = free.with_name(f"{free.name}.old")
        path.rename(free)


def _has_learnt(run: Path) -> bool:
    return runs.is_finished(run) or bool(steps.steps(run))


def _is_begun(run: Path, record: RunRecord) -> bool:
    """Tell whether the run in a folder is the one that a record describes."""
    try:
        _same_run(run, runs.read_record(run), record)
    except UserError:
        return False
    return True


@contextmanager
def data_folder(run: Path) -> Iterator[Path]:
    """Yield a folder for the prepared data of a run; it is deleted at the end."""
    with TemporaryDirectory(
        prefix=".data.", suffix=".partial", dir=run, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def _job() -> str | None:
    """Return the name of the ``torchrun`` job that this process is of; names may be used again."""
    return os.environ.get("TORCHELASTIC_RUN_ID")


def _inputs(record: RunRecord) -> Iterator[Path]:
    """Yield the files and folders that a run reads."""
    for item in (*record.data, *(record.dev or ())):
        yield Path(item["file"])
    for key in ("model", "vocabulary", "teacher", "phrases"):
        path = Path(record.settings.get(key) or "")
        if path.name and path.exists():  # else a name that heedful knows
            yield path


def _same_run(run: Path, old: RunRecord, new: RunRecord) -> None:
    """Refuse to go on with a run with other settings or data: the result would mix both."""
    if old.task != new.task:
        raise UserError(f"{run} is a run of train {old.task}, not of train {new.task}")
    free = _FREE_SETTINGS
    if new.settings.get("average", 1) > 1:  # the last checkpoints make the model
        free -= {"checkpoint_every"}
    for key in sorted(old.settings.keys() | new.settings.keys()):
        before, now = old.settings.get(key), new.settings.get(key)
        if key in ("train", "dev"):  # temporary files are told apart below, by what they hold
            before, now = (files and [data_name(file) for file in files] for files in (before, now))
        if key not in free and before != now:
            raise other_option(run, key, before, now)
    _same_files(f"{run} was started on other training data", old.data, new.data)
    if old.dev is not None and new.dev is not None:
        _same_files(f"{run} was started with other data of --dev", old.dev, new.dev)
    if (old.teacher or {}).get("sha256") != (new.teacher or {}).get("sha256"):
        raise UserError(f"{run} was started with another --teacher: its weights have changed")


def _same_files(
    wrong: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse files whose contents are not what they were, and say which these are."""
    if [item["sha256"] for item in old] == [item["sha256"] for item in new]:
        return
    before, now = ({item["sha256"]: item["file"] for item in each} for each in (old, new))
    changed = {data_name((before | now)[digest]) for digest in before.keys() ^ now.keys()}
    if changed == {IN_MEMORY}:
        raise UserError(f"{wrong}: the {IN_MEMORY} has changed; give --overwrite to start anew")
    names = f": {listed(sorted(changed))}" if changed else ""
    raise UserError(f"{wrong}: its files have changed{names}")
