"""Read phrases to mask as a whole in pre-training, from a list or marked in running text.

Double square brackets mark a phrase: ``she lives in [[New York]]``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.documents import Document
from heedful.reading.lines import UTF8, read_files, read_lines

# Possessive, because backtracking takes quadratic time after an unclosed mark.
_MARKED = re.compile(r"\[\[(?=\s*+[^\[\]\s])([^\[\]]++)\]\]")


def read_phrases(path: Path, encoding: str = UTF8) -> list[str]:
    """Read a list of phrases, one per line. Empty lines are skipped.

    Raises:
        UserError: the file is missing, is not text, or has no phrase.
    """
    return [*read_files([path], partial(_phrases, encoding=encoding), "phrases")]


def _phrases(path: Path, encoding: str) -> Iterator[str]:
    return filter(None, map(str.strip, read_lines(path, encoding=encoding)))


def unmark(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents with the phrase marks removed.

    Raises:
        UserError: a pair of brackets is incomplete. The message has the document's line.
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
    """Return the marked phrases of documents, without duplicates, in text order."""
    matches = (match for document in documents for match in _MARKED.findall(document.text))
    return [*dict.fromkeys(" ".join(phrase.split()) for phrase in matches)]
