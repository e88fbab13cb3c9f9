"""Worker processes that tokenize and read data beside the training process.

Workers are spawned, not forked, because a fork of a process with threads may hang. Unlike the
workers of `multiprocessing`, they do not re-run the user's program, because nothing of it is sent
to them. So a training script needs no ``if __name__ == "__main__"``. With ordinary workers, a
script without that line would start training in each process and fail.
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
        """Start with an empty ``__main__``, or the worker would re-run the file at its path."""
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
    """Wait for the result of a future and return it.

    Raises:
        UserError: the process ended without a result.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise UserError(
            "a process that reads text was killed, perhaps because memory ran out; "
            "--workers 1 needs none"
        ) from error
