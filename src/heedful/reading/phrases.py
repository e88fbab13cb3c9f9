"""Phrases to hide whole in pre-training: from a list, or marked in running text.

A mark is a pair of square brackets on either side: ``she lives in [[New York]]``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.documents import Document
from heedful.reading.lines import UTF8, read_files, read_lines

_MARKED = re.compile(r"\[\[([^\[\]]*[^\[\]\s][^\[\]]*)\]\]")


def read_phrases(path: Path, encoding: str = UTF8) -> list[str]:
    """Read a list of phrases, one on each line; empty lines are left out.

    Raises:
        UserError: the file is missing, is not text, or holds no phrase.
    """
    return [*read_files([path], partial(_phrases, encoding=encoding), "phrases")]


def _phrases(path: Path, encoding: str) -> Iterator[str]:
    return filter(None, map(str.strip, read_lines(path, encoding=encoding)))


def unmark(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents as if their marks were not there.

    Raises:
        UserError: half of a mark is missing, with the document's line.
    """
    for document in documents:
        text = _MARKED.sub(r"\1", document.text)
        half = next((half for half in ("[[", "]]") if half in text), None)
        if half is not None:
            raise UserError(
                f"{document.source}: after line {document.line} there is {half!r}, half of a mark; "
                "write [[a phrase]], or name phrases with --phrases to leave the text as it is"
            )
        yield replace(document, text=text)


def marked_phrases(documents: Iterable[Document]) -> list[str]:
    """Return what is marked in documents, each phrase once, in the order of the text."""
    matches = (match for document in documents for match in _MARKED.findall(document.text))
    return [*dict.fromkeys(" ".join(phrase.split()) for phrase in matches)]
