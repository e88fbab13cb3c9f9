"""``heedful explain``: which tokens an answer comes from, and what the model attends to."""

from collections.abc import Callable
from pathlib import Path

from heedful import files
from heedful.errors import UserError
from heedful.explain.explanation import Explanation
from heedful.explain.html import render


def _write_html(explanation: Explanation, path: Path) -> None:
    path.write_text(render(explanation), encoding="utf-8")


def _write_json(explanation: Explanation, path: Path) -> None:
    files.write_json(path, explanation.to_dict())


WRITERS: dict[str, Callable[[Explanation, Path], None]] = {
    ".html": _write_html,
    ".json": _write_json,
}
"""What writes an explanation, by the ending of the file."""


def check_out(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises:
        UserError: its ending says nothing, or it is there already.
    """
    if path.suffix.lower() not in WRITERS:
        raise UserError(f"--out {path}: the ending says what is written: {', '.join(WRITERS)}")
    if path.exists() and not overwrite:
        raise UserError(f"--out {path} exists; choose another file or give --overwrite")


def write(explanation: Explanation, path: Path) -> None:
    """Write an explanation as the ending of the file says; see `check_out`."""
    WRITERS[path.suffix.lower()](explanation, path)
