"""``MODEL_CARD.md``: a description of a run, generated from its record."""

import re
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RunRecord
from heedful.errors import escape_controls, shell_word
from heedful.reading.frames import data_name


def write_card(
    folder: Path, record: RunRecord, *, purpose: str, example: str, trained: str = ""
) -> None:
    """Write the model card of a run.

    Args:
        folder: the folder to write the card to.
        record: the record of the run.
        purpose: what the model does, in one or two sentences.
        example: example arguments of ``heedful predict``.
        trained: a sentence about the steps that were taken.
    """
    settings = "\n".join(
        f"| {name} | {_setting(setting)} |"
        for name, setting in record.settings.items()
        if setting is not None and not (name == "model" and record.from_scratch)
    )
    data = "\n".join(
        f"- {_escaped(data_name(item['file']))}: {item['bytes']:,} bytes, SHA-256 {item['sha256']}"
        for item in record.data
    )
    if record.teacher is not None:
        teacher = record.teacher
        data += (
            f"\n\nIt was also trained on the answers of a teacher: {_escaped(teacher['file'])}, "
            f"{teacher['bytes']:,} bytes, SHA-256 {teacher['sha256']}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    is_image_model = record.goal.get("pictures", False)
    length = record.max_length
    input_text = f"{length} tokens at once; {_of_longer_texts(record)}."
    if is_image_model:
        input_text = f"an image as {length} tokens."
    run = shell_word(folder.parent.name)
    text = f"""# A heedful run: {record.task}

{_escaped(purpose)}
It reads {input_text}

    heedful predict {run} {example}
    heedful evaluate {run} --data {"FOLDER" if is_image_model else "FILE"}

## Training data

{data}

## Settings
{f"{chr(10)}{trained}{chr(10)}" if trained else ""}
| setting | value |
|---|---|
{settings}

Made with {versions}.
"""
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8", errors="backslashreplace")


def _of_longer_texts(record: RunRecord) -> str:
    """Return what happens to a longer text by default."""
    continues = record.task == "generate" and record.goal.get("pairs") is False
    if continues or record.goal.get("objective") == "clm":
        return "a longer text to continue is cut at its start"
    if record.task == "translate":
        return "longer texts are translated sentence by sentence"
    return "longer texts are read in windows by default"


def _setting(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return _escaped(", ".join(map(str, values)))


def _escaped(text: str) -> str:
    """Escape user text for Markdown: on one line, in one table cell, and without HTML."""
    return _MARKS.sub(r"\\\g<0>", escape_controls(" ".join(text.split())))


_MARKS = re.compile(r"[\\`*\[\]<>|&~]|(?<![^\W_])_|_(?![^\W_])")
"""Special characters of Markdown; an underscore inside a word is not special."""
