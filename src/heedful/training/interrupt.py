"""Signals end a run between two steps, never in the middle of one."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1")
"""Ctrl-C, and how schedulers say that a job's time is over or its machine is wanted."""

_TWICE = 0.5
"""Seconds after which a second Ctrl-C is one: ``torchrun`` passes on what its processes got too."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came while nothing was learnt that a checkpoint would keep."""


@dataclass(slots=True)
class StopRequest:
    """Whether somebody asked the run to stop."""

    signal_name: str | None = None


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn signals into a request; a second Ctrl-C interrupts at once.

    Of a scheduler's signals the first counts: a second one must not spoil the checkpoint.
    """
    request = StopRequest()
    # Python lets only the main thread set handlers; elsewhere its owner decides.
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    asked_at = 0.0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        now = time.monotonic()
        if request.signal_name is None:
            request.signal_name, asked_at = signal.Signals(number).name, now
        elif number == signal.SIGINT and now - asked_at > _TWICE:
            raise KeyboardInterrupt

    # Windows does not have all of them.
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Have SIGTERM interrupt what runs, as Ctrl-C does, once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore_sigterm()
        raise Terminated("SIGTERM: stopped")

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) == interrupt:
            signal.signal(signal.SIGTERM, before)


def ignore_sigterm() -> None:
    """Let SIGTERM change nothing any more: this process ends, and has something to say first."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
