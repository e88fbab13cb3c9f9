"""Signals end a run between two steps, never in the middle of one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_ENDING = ("SIGTERM", "SIGUSR1", "SIGHUP")
"""How schedulers say that a job's time is over or its machine is wanted, and a terminal that it is
closed."""

_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""What ``torchrun`` sets for its processes. It ends the others where one is gone."""

_TWICE = 0.5
"""Seconds after which a second Ctrl-C is one: ``torchrun`` passes on what its processes got too."""


class Terminated(KeyboardInterrupt):
    """A signal came while nothing was learnt that a checkpoint would keep."""


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
        _leave_closed_terminal()
        now = time.monotonic()
        if request.signal_name is None:
            request.signal_name, asked_at = signal.Signals(number).name, now
        elif number == signal.SIGINT and now - asked_at > _TWICE:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, *_ending())}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Have what asks a process to end interrupt what runs, as Ctrl-C does, once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore_signals()
        _leave_closed_terminal()
        told = f"{signal.Signals(number).name}: stopped"
        if _TORCHRUN in os.environ and number == signal.SIGTERM:  # one may have been killed
            told += " by torchrun, which says below which process ended first, if one did"
        raise Terminated(told)

    before = {number: signal.signal(number, interrupt) for number in _ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) == interrupt:
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Let no signal but Ctrl-C change anything: this process ends, and has something to say."""
    if threading.current_thread() is threading.main_thread():
        for number in _ending():
            signal.signal(number, signal.SIG_IGN)


def _ending() -> list[signal.Signals]:
    """Return the signals that ask a process to end; Windows does not have all of them."""
    there = [name for name in _ENDING if hasattr(signal, name)]
    # nohup has SIGHUP ignored: what it starts outlives the terminal.
    return [
        signal.Signals[name]
        for name in there
        if name != "SIGHUP" or signal.getsignal(signal.Signals[name]) != signal.SIG_IGN
    ]


def _leave_closed_terminal() -> None:
    """Send what is still said nowhere if the terminal is closed, where to write would fail."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
