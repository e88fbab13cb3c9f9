"""Which signals ask a run to stop, and which one interrupts it."""

import signal

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
