"""Plain text to documents: the stretches of text whose sentences follow one another.

Files are streamed: only one document is held in memory. A line may be part of a sentence, as in
hard-wrapped books, a sentence, a paragraph or a document; the layout says where a document ends.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.reading.compressed import ending_of
from heedful.reading.frames import IN_MEMORY, data_name
from heedful.reading.lines import UTF8, read_files, read_lines, source_name

DocumentLayout = Literal["blank-line", "gap", "file", "line"]
"""What separates two documents: a blank line, two blank lines or more (as between the chapters of a
book), the end of a file, or the end of a line."""

MAX_CHARACTERS = 2**26
"""The longest document: 64 million characters, about a hundred novels."""

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")

_BLANK_LINES = {"line": 0, "blank-line": 1, "gap": 2, "file": math.inf}
"""How many blank lines end a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document as the user wrote it."""

    text: str
    r"""Its lines, stripped and joined by ``\n``; any number of blank lines become an empty one."""
    source: str
    """The name of the file in messages."""
    line: int
    """The line of the file on which it begins, from 1."""


def read_documents(
    paths: Sequence[Path], layout: DocumentLayout = "blank-line", encoding: str = UTF8
) -> Iterator[Document]:
    """Stream the documents of plain text files; the end of a file ends a document.

    Args:
        paths: the files, read one after the other.
        layout: where documents end.
        encoding: how characters are stored.

    Raises:
        UserError: at once for a missing file or a table; during iteration for a file that is not
            text or holds none, or a document above `MAX_CHARACTERS`, with its line.
    """
    for path in paths:
        if ending_of(path) in _TABLES:
            what = IN_MEMORY if data_name(path) == IN_MEMORY else "a table, by its name"
            raise UserError(f"{path}: {what}; running text is read from files of plain text")
    return read_files(
        paths, partial(_read, blank_lines=_BLANK_LINES[layout], encoding=encoding), "text"
    )


def _read(path: Path, blank_lines: float, encoding: str) -> Iterator[Document]:
    source = source_name(path)
    lines: list[str] = []
    start = blanks = size = 0
    for number, raw in enumerate(read_lines(path, encoding=encoding), start=1):
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
