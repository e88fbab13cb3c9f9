"""Run folders: a trained model and everything that its predictions depend on."""

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from heedful import __version__, files
from heedful.errors import UserError
from heedful.locks import LOCK
from heedful.models import Head
from heedful.settings.data import DEFAULT_MODEL

RECORD = files.RECORD
METRICS = "metrics.jsonl"

_NOT_IN_MANIFEST = frozenset(
    {
        *(RECORD, files.MANIFEST, LOCK, METRICS, "checkpoints", "tensorboard"),
        *("corpus", "vocabulary", "retold", "pruned_heads.json", ".torchelastic"),
        *("metrics.json", "report.html"),
    }
)
"""Entries of a run folder that are not in its manifest: training state, prepared data, and
evaluations of the finished run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """The contents of ``heedful.json``."""

    task: str
    """Name of the task, such as ``classify``."""
    goal: dict[str, Any]
    """Task fields that predictions need, such as the labels in the order of the outputs."""
    max_length: int
    """Maximum sequence length in tokens, special tokens included."""
    settings: dict[str, Any]
    """Settings of the training command."""
    data: list[dict[str, Any]]
    """File, bytes and SHA-256 of each training file."""
    versions: dict[str, str]
    """Versions of heedful, torch and Python."""
    teacher: dict[str, Any] | None = None
    """File, bytes and SHA-256 of the teacher's weights, if there was a teacher."""
    dev: list[dict[str, Any]] | None = None
    """File, bytes and SHA-256 of each ``--dev`` file; None without such files, or in records of
    older versions."""
    phrases: dict[str, Any] | None = None
    """File, bytes and SHA-256 of the ``--phrases``; None as for ``dev``."""
    tokenizer: str | None = None
    """SHA-256 of all that affects token ids; None in records of older versions."""
    model: dict[str, Any] | None = None
    """Configuration of the model at the start; None as for ``tokenizer``."""

    @property
    def outside(self) -> bool:
        """Whether another program trained the model."""
        return not self.versions

    @property
    def from_scratch(self) -> bool:
        """Whether the run started from random weights: it has a preset, and a model by default."""
        model = self.settings.get("model")
        return self.settings.get("preset") is not None and model in (None, DEFAULT_MODEL)

    @property
    def head(self) -> Head | None:
        """The model's head; None for the head that the folder's configuration names.

        Folders of sentence-transformers may still name the head that the encoder had before.
        """
        return "body" if self.task == "embed" else None


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {
        "heedful": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def outside_record(task: str, goal: dict[str, Any], max_length: int) -> RunRecord:
    """Return the record of a model from another program."""
    return RunRecord(task=task, goal=goal, max_length=max_length, settings={}, data=[], versions={})


def write_record(run: Path, record: RunRecord) -> None:
    """Write ``heedful.json``."""
    files.write_json(run / RECORD, asdict(record))


def read_record(run: Path) -> RunRecord:
    """Read ``heedful.json``.

    Raises:
        UserError: the folder is not a run, or its record is damaged or from another version.
    """
    path = run / RECORD
    if run.is_file():
        raise UserError(f"{run}: a file; a run is a folder")
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder")
    if not path.is_file():
        raise UserError(
            f"{run}: not a heedful run (no {RECORD} in it), nor another model that heedful supports"
        )
    optional = {"teacher": dict, "dev": list, "phrases": dict, "tokenizer": str, "model": dict}
    raw = files.read_fields(path, RunRecord, absent=dict.fromkeys(optional))
    kinds = {"task": str, "goal": dict, "max_length": int, "settings": dict, "data": list}
    kinds |= {"versions": dict, **optional}
    for key, kind in kinds.items():
        absent = raw[key] is None and key in optional
        if type(raw[key]) is not kind and not absent:
            raise UserError(f"{path}: {key!r} is {raw[key]!r:.40}; the file is damaged")
    single = filter(None, (raw["teacher"], raw["phrases"]))
    for item in (*raw["data"], *(raw["dev"] or ()), *single):
        if not isinstance(item, dict) or item.keys() != {"file", "bytes", "sha256"}:
            raise UserError(
                f"{path}: {item!r:.40} is not a file with its size; the file is damaged"
            )
    for values in (raw["goal"], raw["settings"]):
        if raw["task"] == "pretrain" and "whole_word" in values:
            _rename_masking(values)
    return RunRecord(**raw)


def _rename_masking(values: dict[str, Any]) -> None:
    """Rename the pre-training fields of version 0.1 to their current names."""
    values["masking"] = "word" if values.pop("whole_word") else "token"
    if "max_minutes" in values:  # the settings, not the goal
        values["arch"] = "bert"


def is_finished(run: Path) -> bool:
    """Return whether a run has a finished model: its manifest is written last."""
    return (run / files.MANIFEST).is_file()


def read_finished(run: Path) -> RunRecord:
    """Read ``heedful.json`` of a finished run.

    Raises:
        UserError: see `read_record`; or the run is unfinished.
    """
    record = read_record(run)
    if not is_finished(run):
        raise UserError(f"{run}: training has not finished; continue it with --resume")
    return record


def others(run: Path) -> list[Path]:
    """Return the entries of a run folder that do not belong to the run, such as a user's notes.

    Raises:
        UserError: the manifest is damaged.
    """
    names_of_run = set(_NOT_IN_MANIFEST)
    # A process that was killed while it moved files into the run has left their manifest behind.
    for manifest in (*run.glob(files.MANIFEST), *run.glob(f".finished.*.partial/{files.MANIFEST}")):
        names_of_run |= {name.partition("/")[0] for name in files.read_manifest(manifest.parent)}
    entries = (path for path in sorted(run.glob("*")) if path.name not in names_of_run)
    return [path for path in entries if not path.match(".*.partial")]


@contextmanager
def finished(run: Path) -> Iterator[Path]:
    """Yield a temporary folder; at the end, move its files into the run, the manifest last.

    The run keeps its checkpoints and metrics. A process that is killed leaves a run without a
    manifest, which ``--resume`` finishes.
    """
    partial = run / f".finished.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with files.with_file_name(run, partial):
            yield partial
            files.write_manifest(partial)
            files.sync_tree(partial)
        names = sorted(path.name for path in partial.iterdir())
        names.remove(files.MANIFEST)
        for name in [*names, files.MANIFEST]:
            if (run / name).is_dir():  # from a killed process; a folder cannot replace it
                shutil.rmtree(run / name)
            (partial / name).replace(run / name)
        files.sync_tree(run, deep=False)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def clear_partial(run: Path) -> None:
    """Delete the incomplete files of a killed process from a run."""
    for path in (*run.glob(".*.partial"), *run.glob("checkpoints/.step-*")):
        shutil.rmtree(path, ignore_errors=True)


def append_metrics(run: Path, row: Mapping[str, object]) -> None:
    """Add one line to ``metrics.jsonl``."""
    path = run / METRICS
    with files.with_file_name(path), path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def cut_metrics(run: Path, step: int) -> None:
    """Delete the lines of steps after ``step``: a resumed run writes them again."""
    path = run / METRICS
    if not path.is_file():
        return
    # After a killed process or a broken disk, the file may hold any bytes and any JSON value.
    lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    kept = [f"{line}\n" for line in lines if _is_row_until(line, step)]
    partial = run / f".{METRICS}.partial"
    with files.with_file_name(path, partial):
        partial.write_bytes("".join(kept).encode())
    partial.replace(path)


def _is_row_until(line: str, last: int) -> bool:
    """Return whether a line belongs to a step up to ``last``."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    step = row.get("step") if isinstance(row, dict) else None
    return type(step) is int and step <= last
