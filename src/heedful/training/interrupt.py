"""Signal handling: a signal stops a run between two steps, never during one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_TERMINATION_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGHUP")
"""Signals of a scheduler at a time limit or preemption, and of a terminal that is closed."""

_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Environment variable that ``torchrun`` sets. It terminates all processes if one is gone."""

_REPEAT_SECONDS = 0.5
"""Seconds before a second Ctrl-C counts: ``torchrun`` forwards a Ctrl-C that its processes have
already received."""


class Terminated(KeyboardInterrupt):
    """A signal arrived while there was no training progress to save."""


@dataclass(slots=True)
class StopRequest:
    """The signal that requested a stop, if any."""

    signal_name: str | None = None


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn signals into a stop request; a second Ctrl-C interrupts immediately.

    Only the first signal of a scheduler counts: a second one must not interrupt the checkpoint.
    """
    request = StopRequest()
    # Only the main thread can set handlers. In another thread, the calling program handles signals.
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    asked_at = 0.0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        _leave_closed_terminal()
        now = time.monotonic()
        if request.signal_name is None:
            request.signal_name, asked_at = signal.Signals(number).name, now
        elif number == signal.SIGINT and now - asked_at > _REPEAT_SECONDS:
            raise KeyboardInterrupt

    old_handlers = {
        number: signal.signal(number, ask) for number in (signal.SIGINT, *_termination_signals())
    }
    try:
        yield request
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Make termination signals interrupt the process as Ctrl-C does, but only once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore_signals()
        _leave_closed_terminal()
        message = f"{signal.Signals(number).name}: stopped"
        if _TORCHRUN in os.environ and number == signal.SIGTERM:  # a process may have been killed
            message += " by torchrun, which reports below which process ended first, if any"
        raise Terminated(message)

    old_handlers = {number: signal.signal(number, interrupt) for number in _termination_signals()}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            if signal.getsignal(number) == interrupt:
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore all signals but Ctrl-C, so that an ending process can print its last message."""
    if threading.current_thread() is threading.main_thread():
        for number in _termination_signals():
            signal.signal(number, signal.SIG_IGN)


def _termination_signals() -> list[signal.Signals]:
    """Return the termination signals; Windows does not have all of them."""
    available = [name for name in _TERMINATION_SIGNALS if hasattr(signal, name)]
    # nohup ignores SIGHUP, so that its process outlives the terminal.
    return [
        signal.Signals[name]
        for name in available
        if name != "SIGHUP" or signal.getsignal(signal.Signals[name]) != signal.SIG_IGN
    ]


def _leave_closed_terminal() -> None:
    """Redirect output to the null device if the terminal is closed, as writing would fail."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
