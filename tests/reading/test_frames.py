"""Data in memory becomes files for as long as they are read."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.reading.frames import as_files

ROWS = [{"text": "the sky is blue", "label": "blue"}]


def test_the_same_rows_may_be_asked_for_twice() -> None:
    with as_files(ROWS) as (train,), as_files(ROWS) as (dev,):
        assert train.read_text() == dev.read_text()
    assert not train.parent.exists()


def test_a_process_that_ends_leaves_the_rows_to_the_others() -> None:
    program = (
        "from heedful.reading.frames import as_files\n"
        f"with as_files({ROWS!r}) as (path,):\n"
        "    print(path)\n"
    )
    with as_files(ROWS) as (path,):
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == f"{path}\n"  # so that a run is resumed on the same file
        assert path.exists()
    assert not path.parent.exists()


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with as_files(ROWS) as (path,):
        folder = path.parent.name
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="belongs to another user; set TMPDIR"), as_files(ROWS):
        pass
    assert not os.listdir(tmp_path / "elsewhere")
