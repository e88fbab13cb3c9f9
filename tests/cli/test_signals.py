"""A command that is told to end leaves nothing half-written."""

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
        os.kill(os.getpid(), signal.SIGTERM)

cli.app = export
cli.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there SIGTERM ends a process at once")
def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _EXPORTING, str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "SIGTERM: stopped\n")
    assert list(tmp_path.iterdir()) == []
