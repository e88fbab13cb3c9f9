import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from heedful import doctor
from heedful.cli import EXIT_STOPPED, run


def test_a_stopped_command_passes_on_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt("go on with --resume")

    monkeypatch.setattr(doctor, "examine", stop)
    assert run(["doctor"]) == EXIT_STOPPED
    assert capsys.readouterr().err == "go on with --resume\n"


# A test in the background starts with Ctrl-C ignored, and so would its processes.
STOPPABLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from heedful.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there a process gets no SIGINT alone")
def test_a_line_is_answered_before_the_next_and_waiting_can_be_stopped() -> None:
    golden = Path(__file__).parents[1] / "golden/0.1.0/classify"
    command = [sys.executable, "-c", STOPPABLE, "predict", str(golden), "--plain"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(60, process.kill)
        watch.start()
        for text, answer in (("a", "animal\n"), ("b", "food\n")):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert process.stdout.readline() == answer
        watch.cancel()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == EXIT_STOPPED
        assert process.stderr is not None
        assert process.stderr.read() == "stopped\n"
