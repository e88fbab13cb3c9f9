"""Ctrl-C and SIGTERM end a run between two steps, never in the middle of one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class StopRequest:
    """Whether somebody asked the run to stop."""

    signal_name: str | None = None


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C or SIGTERM into a request; a second one interrupts at once."""
    request = StopRequest()
    # Python lets only the main thread set handlers; elsewhere its owner decides.
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if request.signal_name is not None:
            raise KeyboardInterrupt
        request.signal_name = signal.Signals(number).name

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
