"""The program that the README of an export shows."""

import contextlib
import io
from pathlib import Path

import pytest


def printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the program in its folder, and return what it prints."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    program = text.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        exec(compile(program, "README.md", "exec"), {})
    return lines.getvalue()
