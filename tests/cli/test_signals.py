"""A command that a signal ends leaves no partial file."""

import subprocess
import sys
from pathlib import Path

import pytest

_EXPORTING = """
import os, signal, sys
from pathlib import Path
from heedful import cli
from heedful.files import new_folder

def export(*words, **options):
    with new_folder(Path(sys.argv[1])) as folder:
        (folder / "model.onnx").touch()
        os.kill(os.getpid(), signal.Signals[sys.argv[2]])

cli.app = export
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, under which tests may run, ignores it
cli.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there SIGTERM ends a process at once")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP"])
def test_a_signal_ends_a_command_as_ctrl_c_does(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-c", _EXPORTING, str(tmp_path / "out"), name]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, f"{name}: stopped\n")
    assert list(tmp_path.iterdir()) == []
