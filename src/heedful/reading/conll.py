"""CoNLL columns to tagged texts: one word a line, a blank line between sentences."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import find_field
from heedful.reading.lines import check_file, read_lines, source_name
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
"""Words of the longest sentence that is read: a file that has more lacks its blank lines."""

_Rows = list[list[str]]


def read_conll(
    path: Path, *, word: str | None = None, tag: str | None = None, labelled: bool = True
) -> Iterator[TaggedText]:
    """Yield the sentences of a file; each text is its words with one space between them.

    Columns stand apart by tabs, or in a line without any by spaces. Which scheme the tags have is
    seen from the file's first entity, and holds for the whole file.

    Args:
        path: the file; ``-`` is stdin.
        word: number of the words' column, from 1; the first by default.
        tag: number of the tags' column; the last by default.
        labelled: whether to read tags.

    Raises:
        UserError: at once for a file that is missing, during iteration for a line with too few or
            too many columns, and for a tag that is none or cannot stand where it does.
    """
    check_file(path)
    return _read(path, word, tag, labelled)


def _read(path: Path, word: str | None, tag: str | None, labelled: bool) -> Iterator[TaggedText]:
    source = source_name(path)
    tags = _Tags(source)
    first = 0
    for first, rows in _sentences(read_lines(path), source):
        width = len(rows[0])
        if labelled and width < 2:
            raise UserError(f"{source}, line {first}: 1 column, expected a word and its tag")
        place = _place(word or "1", source, width)
        words = [row[place] for row in rows]
        if "" in words:
            raise UserError(f"{source}, line {first + words.index('')}: empty word")
        text, spans = join_words(words)
        entities = None
        if labelled:
            place = _place(tag or str(width), source, width)
            found = tags.entities([row[place] for row in rows], first)
            entities = tuple(Entity(spans[a][0], spans[b - 1][1], label) for a, b, label in found)
        yield TaggedText(text=text, words=spans, entities=entities, source=source, line=first)
    if not first:
        raise UserError(f"{source}: holds no sentences")


def join_words(words: Sequence[str]) -> tuple[str, tuple[Word, ...]]:
    """Put words together with one space between them, and tell where each stands."""
    spans: list[Word] = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def _sentences(lines: Iterator[str], source: str) -> Iterator[tuple[int, _Rows]]:
    """Yield the rows of each sentence, and the line of the first of them."""
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
    # Not every character that Python takes for a space ends a word: a no-break space is in it.
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


def _place(number: str, source: str, width: int) -> int:
    return find_field(number, source, None, width).place


class _Tags:
    """Reads the tags of a file's sentences, all in the scheme that its first entity shows."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._scheme: Scheme | None = None
        self._shown_by = 0

    def entities(self, written: Sequence[str], first: int) -> list[Entity]:
        """Return the entities, in words, of a sentence that begins in line ``first``."""
        tags = [self._parsed(tag, first + place) for place, tag in enumerate(written)]
        if self._scheme is None:
            self._scheme = scheme_of(tags)
            if self._scheme is None:
                return []
            self._shown_by = first + next(at for at, tag in enumerate(tags) if tag != OUTSIDE)
        fault = first_fault(tags, self._scheme)
        if fault is not None:
            raise self._error(written, fault, first)
        return entities_of(tags)

    def _parsed(self, tag: str, line: int) -> Tag:
        try:
            return parse_tag(tag)
        except UserError as error:
            raise UserError(f"{self._source}, line {line}: {error}") from None

    def _error(self, written: Sequence[str], fault: int, first: int) -> UserError:
        if fault == len(written):
            line, what = first + fault - 1, f"{written[-1]!r} cannot end a sentence"
        elif fault == 0:
            line, what = first, f"{written[0]!r} cannot begin a sentence"
        else:
            line, what = first + fault, f"{written[fault]!r} cannot follow {written[fault - 1]!r}"
        return UserError(
            f"{self._source}, line {line}: tag {what} in {self._scheme}, "
            f"the scheme that line {self._shown_by} shows"
        )
