"""Lets the caller of a long computation cancel it: loops call `check_cancelled` at each step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Let `check_cancelled` call ``check`` within this context, and in copies of it.

    Inside another such context, it calls the checks of both.

    Args:
        check: raises an exception to cancel the computation.
    """
    outer = _CHECK.get()

    def check_both() -> None:
        if outer is not None:
            outer()
        check()

    token = _CHECK.set(check_both)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_cancelled() -> None:
    """Raise the exception of the caller of `cancellable` if it has cancelled the computation."""
    if (check := _CHECK.get()) is not None:
        check()
