"""Which signals stop a run after a step, and which interrupts it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from heedful.training import interrupt


def test_a_second_control_c_interrupts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now)
    before = signal.getsignal(signal.SIGUSR1)
    with interrupt.stop_on_signal() as request:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGINT)
        now += 1
        # A scheduler's second signal leaves the time to write the checkpoint.
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert request.signal_name == "SIGUSR1"
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.skipif(sys.platform == "win32", reason="it has neither signal")
@pytest.mark.parametrize(
    ("name", "torchrun", "told"),
    [
        ("SIGTERM", False, "SIGTERM: stopped"),
        ("SIGUSR1", True, "SIGUSR1: stopped"),
        ("SIGHUP", False, "SIGHUP: stopped"),
        # A process may have been killed while this one was starting, and knew of no other.
        (
            "SIGTERM",
            True,
            "SIGTERM: stopped by torchrun, which reports below which process ended .*",
        ),
    ],
)
def test_signals_interrupt_what_comes_before_and_after_the_steps(
    name: str, torchrun: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    number = signal.Signals[name]
    before = signal.getsignal(number)
    try:
        with pytest.raises(interrupt.Terminated, match=f"^{told}$"):
            _interrupted_twice(number)
        assert signal.getsignal(number) == signal.SIG_IGN  # this process ends
    finally:
        for ending in ("SIGTERM", "SIGUSR1", "SIGHUP"):
            signal.signal(signal.Signals[ending], signal.SIG_DFL)
        signal.signal(number, before)


def _interrupted_twice(number: int) -> None:
    with interrupt.interrupted_by_signals():
        with interrupt.stop_on_signal() as request:
            signal.raise_signal(number)
        assert request.signal_name == signal.Signals(number).name
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGHUP")
def test_a_closed_terminal_changes_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt.interrupted_by_signals(), interrupt.stop_on_signal() as request:
            signal.raise_signal(signal.SIGHUP)
        assert request.signal_name is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


_CLOSING = """
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
os.read(terminal, 1)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

_WAITING = """
import sys, time
from pathlib import Path
from heedful.training.interrupt import stop_on_signal

with stop_on_signal() as request:
    print("begun", flush=True)
    while request.signal_name is None:
        time.sleep(0.01)
    for stream in (sys.stdout, sys.stderr):
        print("stopped", file=stream, flush=True)
    Path(sys.argv[1]).write_text(request.signal_name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="how a terminal closes differs")
def test_what_is_said_when_the_terminal_is_closed_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CLOSING, _WAITING, str(tmp_path / "said")]
    assert subprocess.run(command, check=False, timeout=120).returncode == 0
    assert (tmp_path / "said").read_text() == "SIGHUP"
