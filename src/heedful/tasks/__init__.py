"""One file per task; `heedful.settings.TASKS` is the table of them, `heedful.task` what each is."""

from importlib import import_module

from heedful.errors import unknown_name
from heedful.settings import TASKS
from heedful.task import AnyTask


def task_named(name: str) -> type[AnyTask]:
    """Return a task.

    Raises:
        UserError: there is none of that name.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    module, _, kind = TASKS[name].home.rpartition(".")
    task: type[AnyTask] = getattr(import_module(module), kind)
    return task
