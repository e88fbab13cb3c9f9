"""Read documents from plain text: passages of consecutive sentences.

Files are streamed; only one document is in memory. A line may be part of a sentence, as in
hard-wrapped books, a sentence, a paragraph or a document. The layout defines where a document ends.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.reading.compressed import extension_of
from heedful.reading.frames import IN_MEMORY, data_name
from heedful.reading.lines import UTF8, read_files, read_lines, source_name

DocumentLayout = Literal["blank-line", "gap", "file", "line"]
"""The separator of documents: a blank line, two or more blank lines (as between the chapters of a
book), the end of a file, or the end of a line."""

MAX_CHARACTERS = 2**26
"""Maximum length of a document: 64 million characters, about a hundred novels."""

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")

_BLANK_LINES = {"line": 0, "blank-line": 1, "gap": 2, "file": math.inf}
"""Number of blank lines that end a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document as the user wrote it."""

    text: str
    r"""The lines, stripped and joined by ``\n``. A run of blank lines becomes one empty line."""
    source: str
    """The file's name in messages."""
    line: int
    """First line of the document in the file, from 1."""


def read_documents(
    paths: Sequence[Path], layout: DocumentLayout = "blank-line", encoding: str = UTF8
) -> Iterator[Document]:
    """Stream the documents of plain text files. The end of a file also ends a document.

    Args:
        paths: the files, read in sequence.
        layout: where documents end.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file or a table. During iteration for a file that is
            not text or is empty, or a document longer than `MAX_CHARACTERS`, with its line.
    """
    for path in paths:
        if extension_of(path) in _TABLES:
            what = IN_MEMORY if data_name(path) == IN_MEMORY else "a table, by its name"
            raise UserError(f"{path}: {what}; running text must be in plain text files")
    return read_files(
        paths, partial(_read, blank_lines=_BLANK_LINES[layout], encoding=encoding), "text"
    )


def _read(path: Path, blank_lines: float, encoding: str) -> Iterator[Document]:
    source = source_name(path)
    lines: list[str] = []
    start = num_blank = num_characters = 0
    for number, raw in enumerate(read_lines(path, encoding=encoding), start=1):
        line = raw.strip()
        if not line:
            num_blank += 1
            continue
        if lines and num_blank >= blank_lines:
            yield Document(text="\n".join(lines), source=source, line=start)
            lines.clear()
        if not lines:
            start, num_characters = number, 0
        elif num_blank:
            lines.append("")
        lines.append(line)
        num_blank, num_characters = 0, num_characters + len(line)
        if num_characters > MAX_CHARACTERS:
            raise UserError(
                f"{source}, line {number}: the document that begins on line {start} has more than "
                f"{MAX_CHARACTERS:,} characters; choose what ends one with --documents: "
                f"{', '.join(_BLANK_LINES)}"
            )
    if lines:
        yield Document(text="\n".join(lines), source=source, line=start)
