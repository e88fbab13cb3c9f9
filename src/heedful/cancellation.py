"""Lets the caller of a long computation cancel it: loops call `check_cancelled` at each step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Let `check_cancelled` call ``check`` within this context, in this thread only.

    Args:
        check: raises an exception to cancel the computation.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_cancelled() -> None:
    """Raise the exception of the caller of `cancellable` if it has cancelled the computation."""
    if (check := _CHECK.get()) is not None:
        check()
