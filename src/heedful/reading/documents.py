"""Plain text to documents: the stretches of text whose sentences follow one another.

Files are streamed: what is held is one document. Hard-wrapped books, one sentence a line, one
paragraph a line and one document a line are all read; the layout says where a document ends.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.reading.lines import check_file, read_lines, source_name

DocumentLayout = Literal["blank-line", "gap", "file", "line"]
"""What stands between two documents: a blank line, two blank lines or more (as between the chapters
of a book), the end of a file, or the end of a line."""

MAX_CHARACTERS = 2**26
"""The longest document: 64 million characters, as much as some hundred novels."""

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")

_BLANK_LINES = {"line": 0, "blank-line": 1, "gap": 2, "file": math.inf}
"""Blank lines that end a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document as its user wrote it."""

    text: str
    r"""Its lines without the blanks around them, joined by ``\n``; an empty line stands for any
    number of blank ones."""
    source: str
    """The file, as it is named in messages."""
    line: int
    """Line of the file on which it begins, from 1."""


def read_documents(
    paths: Sequence[Path], layout: DocumentLayout = "blank-line"
) -> Iterator[Document]:
    """Stream the documents of plain text files, also ``.gz``; the end of a file ends a document.

    Args:
        paths: the files, read one after the other.
        layout: where documents end.

    Raises:
        UserError: at once for a missing file or a table; during iteration for one that holds no
            text, is no text, or has a document above `MAX_CHARACTERS`, with its line.
    """
    if not paths:
        raise UserError("no text file given")
    for path in paths:
        check_file(path)
        if path.name.lower().removesuffix(".gz").endswith(_TABLES):
            raise UserError(f"{path}: a table, by its name; running text is read from plain text")
    return _documents(paths, layout)


def _documents(paths: Sequence[Path], layout: DocumentLayout) -> Iterator[Document]:
    for path in paths:
        document = None
        for document in _of_file(path, _BLANK_LINES[layout]):
            yield document
        if document is None:
            raise UserError(f"{source_name(path)}: holds no text")


def _of_file(path: Path, blank_lines: float) -> Iterator[Document]:
    source = source_name(path)
    lines: list[str] = []
    start = blanks = size = 0
    for number, raw in enumerate(read_lines(path), start=1):
        line = raw.strip()
        if not line:
            blanks += 1
            continue
        if lines and blanks >= blank_lines:
            yield Document(text="\n".join(lines), source=source, line=start)
            lines.clear()
        if not lines:
            start, size = number, 0
        elif blanks:
            lines.append("")
        lines.append(line)
        blanks, size = 0, size + len(line)
        if size > MAX_CHARACTERS:
            raise UserError(
                f"{source}, line {number}: the document that begins on line {start} has more than "
                f"{MAX_CHARACTERS:,} characters; --documents says what ends one: "
                f"{', '.join(_BLANK_LINES)}"
            )
    if lines:
        yield Document(text="\n".join(lines), source=source, line=start)
