"""One file per task; a task is a record of functions (see ``task.py``)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heedful.errors import UserError, unknown_name
from heedful.settings import ColumnSettings
from heedful.tasks.answer import TASK as ANSWER
from heedful.tasks.choose import TASK as CHOOSE
from heedful.tasks.classify import TASK as CLASSIFY
from heedful.tasks.embed import TASK as EMBED
from heedful.tasks.generate import TASK as GENERATE
from heedful.tasks.pretrain import TASK as PRETRAIN
from heedful.tasks.regress import TASK as REGRESS
from heedful.tasks.tag import TASK as TAG
from heedful.tasks.task import Fit, Task
from heedful.tasks.translate import TASK as TRANSLATE

TASKS: dict[str, Task] = {
    task.name: task
    for task in (CLASSIFY, REGRESS, TAG, ANSWER, CHOOSE, EMBED, PRETRAIN, GENERATE, TRANSLATE)
}
"""Every task, by the name that a run folder keeps."""


def task_named(name: str) -> Task:
    """Return a task.

    Raises:
        UserError: there is none of that name.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def read_files(
    task: Task, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
) -> Iterator[Any]:
    """Stream a task's records from files.

    Raises:
        UserError: something is wrong in a file, or columns are named where there are none.
    """
    if not task.uses_columns and columns != ColumnSettings():
        raise UserError(
            f"the files of {task.name} have a format of their own: leave out the options of columns"
        )
    return task.read(paths, columns, labelled)


__all__ = ["TASKS", "Fit", "Task", "read_files", "task_named"]
