"""Folders of other programs: those that are answered from as they are, and those that are written.

A new format is a file here and a line of a table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import UserError
from heedful.files import new_folder

if TYPE_CHECKING:
    from heedful.checkpoints.runs import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A layout that ``heedful export`` writes."""

    writer: str
    """Module and function: from a run's folder and record to a folder that is there and empty."""
    tasks: frozenset[str]
    """Tasks whose runs it can hold."""
    files: frozenset[str]
    """Names of what it writes, which ``--overwrite`` may replace."""
    about: str
    """What reads it, for the help."""


READERS = (
    "heedful.interop.sentence_transformers.read_record",
    "heedful.interop.marian.read_record",
)
"""Functions that say what a folder without ``heedful.json`` is, as a run would, if they know it."""

FORMATS = {
    "marian": Format(
        writer="heedful.interop.marian.export",
        tasks=frozenset({"translate"}),
        files=frozenset(
            {
                "config.json",
                "model.safetensors",
                "generation_config.json",
                "vocab.json",
                "target_vocab.json",
                "tokenizer_config.json",
                "source.spm",
                "target.spm",
            }
        ),
        about="MarianMTModel of transformers, and what converts from it",
    ),
}
"""Every layout that can be written, by the name that ``--format`` takes."""


def foreign_record(folder: Path) -> "RunRecord | None":
    """Say what another program's folder is, as a run would; None where no reader knows it.

    Raises:
        UserError: one of its files is damaged.
    """
    from heedful.checkpoints.runs import RECORD

    if (folder / RECORD).is_file():
        return None
    records = (_imported(reader)(folder) for reader in READERS)
    record: RunRecord | None = next((record for record in records if record), None)
    return record


def export(run: Path, out: Path, name: str, *, overwrite: bool = False) -> None:
    """Write a run as a folder of another program.

    Args:
        run: a finished run.
        out: the folder.
        name: a key of ``FORMATS``.
        overwrite: whether to replace what was exported there.

    Raises:
        UserError: the run cannot be written so, or the folder exists, and ``overwrite`` is false or
            it holds anything else.
    """
    from heedful.checkpoints import runs  # it needs torch, and the table is read for help

    kind = FORMATS[name]
    if out.exists() and not overwrite:  # now, not after all has been read
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - kind.files):
        raise UserError(f"--to {out} holds other files than a model; choose another folder")
    record = runs.read_record(run)
    if record.task not in kind.tasks:
        fitting = " or ".join(sorted(kind.tasks))
        raise UserError(f"{run}: a {record.task} run; --format {name} is for runs of {fitting}")
    record = runs.read_finished(run)
    with new_folder(out, overwrite=overwrite) as folder:
        _imported(kind.writer)(run, record, folder)


def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
