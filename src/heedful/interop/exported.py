"""Keep the task of a run in its exports, so that heedful answers from them as from the run.

The formats of other programs have no place for some of its settings, such as the tagging scheme,
the no-answer threshold, and the overlap of windows.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.errors import UserError
from heedful.files import read_fields, read_json, write_json
from heedful.models.loading import read_config
from heedful.models.pretrained import CONFIG

EXPORTED = "heedful_export.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportRecord:
    """The contents of ``heedful_export.json``; see `RunRecord` for the first three fields."""

    task: str
    goal: dict[str, Any]
    max_length: int
    architectures: list[str]
    """The model class, as ``config.json`` names it."""


def write_record(record: RunRecord, folder: Path) -> None:
    """Write ``heedful_export.json`` into an exported folder, beside ``config.json``."""
    exported = ExportRecord(
        task=record.task,
        goal=record.goal,
        max_length=record.max_length,
        architectures=read_json(folder / CONFIG)["architectures"],
    )
    write_json(folder / EXPORTED, asdict(exported))


def read_record(folder: Path) -> RunRecord | None:
    """Return the record that an export has kept; None for any other folder.

    Raises:
        UserError: the file is damaged, or another program has since replaced the model by one of
            another kind or with other labels.
    """
    path = folder / EXPORTED
    if not path.is_file():
        return None
    kept = ExportRecord(**read_fields(path, ExportRecord))
    for name, kind in (("task", str), ("goal", dict), ("max_length", int)):
        if type(value := getattr(kept, name)) is not kind:
            raise UserError(f"{path}: {name!r} is {value!r:.40}; the file is damaged")
    labels = kept.goal.get("labels")
    config = read_json(folder / CONFIG)
    if config.get("architectures") != kept.architectures or (
        labels is not None and labels != [*read_config(folder).id2label.values()]
    ):
        raise UserError(
            f"{path}: describes another model than {CONFIG}, which has other labels or another "
            "head; delete it if the model was replaced"
        )
    return outside_record(kept.task, kept.goal, kept.max_length)
