"""One file per task; `heedful.settings.TASKS` is the table of them, `heedful.task` what each is."""

from dataclasses import fields
from importlib import import_module
from pathlib import Path

from heedful.checkpoints.runs import RECORD, RunRecord
from heedful.errors import UserError, check_known, unknown_name, with_article
from heedful.models.loading import head_of
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.settings import TASKS, checked_values
from heedful.task import AnyTask, check_max_length


def task_named(name: str) -> type[AnyTask]:
    """Return a task.

    Raises:
        UserError: there is none of that name.
    """
    check_known("task", name, TASKS)
    module, _, kind = TASKS[name].home.rpartition(".")
    task: type[AnyTask] = getattr(import_module(module), kind)
    return task


def read_task(record: RunRecord, folder: Path | None = None) -> AnyTask:
    """Build the task of a run from what ``heedful.json`` holds.

    Args:
        record: what it holds.
        folder: the run, for messages.

    Raises:
        UserError: there is no such task, a key is missing or unknown, or its value of another type.
    """
    path = RECORD if folder is None else folder / RECORD
    goal = {key: tuple(v) if isinstance(v, list) else v for key, v in record.goal.items()}
    try:
        kind = task_named(record.task)
        known = [field.name for field in fields(kind)]
        for key in goal.keys() - {*known}:
            raise unknown_name("key", key, known)
        return kind(**checked_values(kind, goal))
    except UserError as error:
        raise UserError(f"{path}: its goal does not fit the task: {error}") from None
    except TypeError:
        raise UserError(f"{path}: its goal does not fit the task: {record.goal}") from None


def check_fit(run: Path, task: AnyTask, record: RunRecord, model: Model, length: int) -> None:
    """Refuse a run whose files do not fit together; what other programs write has no record.

    Args:
        run: its folder.
        task: what it learnt.
        record: what it says of itself.
        model: what it holds.
        length: the most tokens that are read at once.

    Raises:
        UserError: naming the file.
    """
    if not (run / RECORD).is_file():
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
        raise UserError(f"{run / RECORD}: {error}; the file is damaged") from None
