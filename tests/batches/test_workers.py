"""Worker processes that tokenize and read do not rerun the user's program or die unnoticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heedful.batches.workers import pool, result_of
from heedful.errors import UserError

# More than a pipe holds: a process that failed before it read that would be waited for without end.
PROGRAM = """
from heedful.batches.workers import pool, result_of

print("begun")
with pool(1, len, ("x" * 2**20,)) as processes:
    print(result_of(processes.submit(abs, -3)))
"""


def test_a_program_without_a_guard_runs_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.stdout, run.stderr) == ("begun\n3\n", "")


def test_the_program_is_there_again_once_a_process_has_started() -> None:
    program = sys.modules["__main__"]
    with pool(1, len, ("",)) as processes:
        assert result_of(processes.submit(abs, -3)) == 3
    assert sys.modules["__main__"] is program


def test_a_process_that_dies_is_told_in_one_line() -> None:
    with (
        pool(1, len, ("",)) as processes,
        pytest.raises(UserError, match=r"a process that reads text was killed.*--workers 1"),
    ):
        result_of(processes.submit(os._exit, 1))
