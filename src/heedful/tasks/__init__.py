"""The tasks, one file each; listed in `heedful.settings.TASKS`, defined in `heedful.task`."""

from dataclasses import fields
from importlib import import_module
from pathlib import Path

from heedful.checkpoints.runs import RECORD, RunRecord
from heedful.errors import UserError, check_known, unknown_name, with_article
from heedful.interop.exported import EXPORTED
from heedful.models.loading import head_of
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.settings import TASKS, checked_values
from heedful.task import AnyTask, check_max_length


def task_named(name: str) -> type[AnyTask]:
    """Return the class of a task.

    Raises:
        UserError: there is no task of this name.
    """
    check_known("task", name, TASKS)
    module, _, class_name = TASKS[name].home.rpartition(".")
    task: type[AnyTask] = getattr(import_module(module), class_name)
    return task


def _record_file(folder: Path) -> Path | None:
    """Return the file with the record of a run or of its export; None for any other folder."""
    files = (folder / name for name in (RECORD, EXPORTED))
    return next((path for path in files if path.is_file()), None)


def read_task(record: RunRecord, folder: Path | None = None) -> AnyTask:
    """Build the task of a run from its record.

    Args:
        record: the run record.
        folder: the run folder, for error messages.

    Raises:
        UserError: the task or a key is unknown, a key is missing, or a value has the wrong type.
    """
    path = (None if folder is None else _record_file(folder)) or RECORD
    goal = {key: tuple(v) if isinstance(v, list) else v for key, v in record.goal.items()}
    try:
        task_class = task_named(record.task)
        names = [field.name for field in fields(task_class)]
        for key in goal.keys() - {*names}:
            raise unknown_name("key", key, names)
        return task_class(**checked_values(task_class, goal))
    except UserError as error:
        raise UserError(f"{path}: its goal does not fit the task: {error}") from None
    except TypeError:
        raise UserError(f"{path}: its goal does not fit the task: {record.goal}") from None


def check_fit(run: Path, task: AnyTask, record: RunRecord, model: Model, length: int) -> None:
    """Refuse a run whose files do not fit together. Model folders of other libraries pass.

    Args:
        run: the run folder.
        task: its task.
        record: its record.
        model: its model.
        length: maximum number of tokens that the model reads in one pass.

    Raises:
        UserError: naming the file.
    """
    path = _record_file(run)
    if path is None:
        return
    if record.head is None and head_of(run) == "body":
        raise UserError(
            f"{run / CONFIG}: architectures names no model that {with_article(task.name)} run has"
        )
    try:
        task.check_model(model)
        if length == record.max_length:
            check_max_length(length, model.max_positions, "max_length")
    except UserError as error:
        raise UserError(f"{path}: {error}; the file is damaged") from None
