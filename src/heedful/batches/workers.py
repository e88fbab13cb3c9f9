"""Processes beside the one that trains, which tokenize and read.

They are new ones, not forks: a fork of a process with threads may hang. Unlike those of
`multiprocessing` they do not run the user's program again before they begin, for nothing of it is
sent to them. So a script that trains needs no ``if __name__ == "__main__"``; without that line,
each process would train itself, and fail.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, TypeVar

from heedful.errors import UserError

Result = TypeVar("Result")


class _Process(SpawnProcess):
    def start(self) -> None:
        """Start with an empty program: the path of ``__main__`` is what would be run again."""
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = program


class _Context(SpawnContext):
    Process = _Process


def pool(
    processes: int, initializer: Callable[..., None], initargs: tuple[Any, ...]
) -> ProcessPoolExecutor:
    """Return a pool of processes, each of which calls ``initializer(*initargs)`` first."""
    return ProcessPoolExecutor(processes, _Context(), initializer=initializer, initargs=initargs)


def result_of(future: Future[Result]) -> Result:
    """Wait for a result.

    Raises:
        UserError: a process ended without one.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise UserError(
            "a process that reads text was killed, perhaps because memory ran out; "
            "--workers 1 needs none"
        ) from error
