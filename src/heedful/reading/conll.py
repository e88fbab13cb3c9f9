"""CoNLL columns to tagged texts: one word on each line, a blank line between sentences."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import find_field
from heedful.reading.lines import read_files, read_lines, source_name
from heedful.reading.tagging import (
    OUTSIDE,
    Entity,
    Scheme,
    Tag,
    TaggedText,
    Word,
    entities_of,
    first_fault,
    parse_tag,
    scheme_of,
)

DOCUMENT = "-DOCSTART-"
MAX_WORDS = 100_000
"""The most words of a sentence: a longer one shows that the file lacks its blank lines."""

_Rows = list[list[str]]


def read_conll(
    path: Path, *, word: str | None = None, tag: str | None = None, labelled: bool = True
) -> Iterator[TaggedText]:
    """Yield the sentences of a file; each text is its words with one space between them.

    Tabs separate columns; in a line without tabs, spaces do. The file's first entity shows the
    scheme of the tags, which holds for the whole file.

    Args:
        path: the file; ``-`` is stdin.
        word: number of the words' column, from 1; the first by default.
        tag: number of the tags' column; the last by default.
        labelled: whether to read tags.

    Raises:
        UserError: at once for a missing file; during iteration for a line with too few or too many
            columns, and for a tag that is malformed or cannot follow the one before it.
    """
    return read_files([path], partial(_read, word=word, tag=tag, labelled=labelled), "sentences")


def _read(path: Path, word: str | None, tag: str | None, labelled: bool) -> Iterator[TaggedText]:
    source = source_name(path)
    tags = _Tags(source)
    for first, rows in _sentences(read_lines(path), source):
        width = len(rows[0])
        if labelled and width < 2:
            raise UserError(f"{source}, line {first}: 1 column, expected a word and its tag")
        column = find_field(word or "1", source, None, width).index
        words = [row[column] for row in rows]
        if "" in words:
            raise UserError(f"{source}, line {first + words.index('')}: empty word")
        text, spans = join_words(words)
        entities = None
        if labelled:
            column = find_field(tag or str(width), source, None, width).index
            entities = tuple(
                Entity(spans[start][0], spans[end - 1][1], label)
                for start, end, label in tags.entities([row[column] for row in rows], first)
            )
        yield TaggedText(text=text, words=spans, entities=entities, source=source, line=first)


def join_words(words: Sequence[str]) -> tuple[str, tuple[Word, ...]]:
    """Join words with one space between them, and return the span of each."""
    spans: list[Word] = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def _sentences(lines: Iterator[str], source: str) -> Iterator[tuple[int, _Rows]]:
    """Yield the number of each sentence's first line, and its rows."""
    rows: _Rows = []
    width, shown_by = 0, 0
    for number, line in enumerate(chain(lines, [""]), start=1):
        row = _columns(without_line_end(line))
        if not row or row[0] == DOCUMENT:
            if rows:
                yield number - len(rows), rows
            rows = []
            continue
        if not width:
            width, shown_by = len(row), number
        if len(row) != width:
            raise UserError(
                f"{source}, line {number}: {len(row)} column{'s' if len(row) > 1 else ''}, "
                f"expected {width} as in line {shown_by}"
            )
        rows.append(row)
        if len(rows) > MAX_WORDS:
            raise UserError(
                f"{source}, line {number}: more than {MAX_WORDS:,} words without a blank line; "
                "one stands between two sentences"
            )


def _columns(line: str) -> list[str]:
    if not line or line.isspace():
        return []
    # Only a plain space ends a word: Python also splits at others, such as a no-break space.
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


class _Tags:
    """Reads the tags of a file, all in the scheme that its first entity shows."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._scheme: Scheme | None = None
        self._shown_by = 0

    def entities(self, texts: Sequence[str], first: int) -> list[Entity]:
        """Return the entities of a sentence, in words, from its tags; ``first`` is its line."""
        tags = [self._parsed(text, line) for line, text in enumerate(texts, start=first)]
        if self._scheme is None:
            self._scheme = scheme_of(tags)
            if self._scheme is None:
                return []
            self._shown_by = next(i for i, tag in enumerate(tags, start=first) if tag != OUTSIDE)
        fault = first_fault(tags, self._scheme)
        if fault is not None:
            raise self._error(texts, fault, first)
        return entities_of(tags)

    def _parsed(self, tag: str, line: int) -> Tag:
        try:
            return parse_tag(tag)
        except UserError as error:
            raise UserError(f"{self._source}, line {line}: {error}") from None

    def _error(self, texts: Sequence[str], fault: int, first: int) -> UserError:
        if fault == len(texts):
            line, what = first + fault - 1, f"{texts[-1]!r} cannot end a sentence"
        elif fault == 0:
            line, what = first, f"{texts[0]!r} cannot begin a sentence"
        else:
            line, what = first + fault, f"{texts[fault]!r} cannot follow {texts[fault - 1]!r}"
        return UserError(
            f"{self._source}, line {line}: tag {what} in {self._scheme}, "
            f"the scheme that line {self._shown_by} shows"
        )
