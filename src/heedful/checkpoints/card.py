"""``MODEL_CARD.md``: a description of a run, from its record."""

import re
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RunRecord
from heedful.errors import shell_word, visible
from heedful.reading.frames import data_name


def write_card(folder: Path, record: RunRecord, *, purpose: str, example: str) -> None:
    """Write the model card of a run.

    Args:
        folder: the folder to write it in.
        record: the record of the run.
        purpose: what the model does, in a sentence or two.
        example: arguments of ``heedful predict`` that show it.
    """
    settings = "\n".join(
        f"| {name} | {_setting(setting)} |"
        for name, setting in record.settings.items()
        if setting is not None
    )
    data = "\n".join(
        f"- {_escaped(data_name(item['file']))}: {item['bytes']:,} bytes, SHA-256 {item['sha256']}"
        for item in record.data
    )
    if record.teacher is not None:
        taught = record.teacher
        data += (
            f"\n\nIt learnt from a teacher, too: {_escaped(taught['file'])}, "
            f"{taught['bytes']:,} bytes, SHA-256 {taught['sha256']}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    sees = record.goal.get("pictures", False)
    length = record.max_length
    reads = f"{length} tokens at once; longer texts are read in windows unless told otherwise."
    if sees:
        reads = f"a picture as {length} tokens."
    run = shell_word(folder.parent.name)
    text = f"""# A heedful run: {record.task}

{_escaped(purpose)}
It reads {reads}

    heedful predict {run} {example}
    heedful evaluate {run} --data {"FOLDER" if sees else "FILE"}

## Training data

{data}

## Settings

| setting | value |
|---|---|
{settings}

Made with {versions}.
"""
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8", errors="backslashreplace")


def _setting(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return _escaped(", ".join(map(str, values)))


def _escaped(text: str) -> str:
    """Return text of a user as Markdown shows it: on one line, in one cell, and never as HTML."""
    return _MARKS.sub(r"\\\g<0>", visible(" ".join(text.split())))


_MARKS = re.compile(r"[\\`*\[\]<>|&~]|(?<![^\W_])_|_(?![^\W_])")
"""Marks of Markdown; an underscore within a word is none."""
