"""Read tagged texts from CoNLL columns: one word per line, a blank line between sentences.

Chinese, Japanese and Korean are often tagged character by character. The characters of such a
column are joined without spaces. Korean columns have a line for each space.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.fields import find_field
from heedful.reading.lines import UTF8, read_files, read_lines, source_name
from heedful.reading.tagging import (
    OUTSIDE,
    Entity,
    Scheme,
    Tag,
    TaggedText,
    Word,
    entities_of,
    first_invalid,
    parse_tag,
    scheme_of,
)
from heedful.scripts import HANGUL, UNSPACED

DOCUMENT = "-DOCSTART-"
MAX_WORDS = 100_000
"""Maximum words per sentence. A longer sentence means that the file lacks blank lines."""

_Rows = list[list[str]]
_NUM_INSPECTED = 32
"""Number of sentences inspected to decide whether a column has words or characters."""
_MIN_SINGLE_SHARE = 0.9
"""Minimum share of single characters in a character column. Latin words and numbers may be
longer."""
_EAST_ASIAN = re.compile(f"[{UNSPACED}{HANGUL}]")
_NO_TAG = "-X-"
"""The part of speech of a document's start."""
_COMMENT = "# "
_KEY = re.compile(r"# \S+ = ")
_NOT_SINGLE_WORD = re.compile(r"\d+[-.]\d+", re.ASCII)
_LATIN = re.compile(rf"[^\W{UNSPACED}{HANGUL}]")


def read_conll(
    path: Path,
    *,
    word: str | None = None,
    tag: str | None = None,
    labelled: bool = True,
    encoding: str = UTF8,
) -> Iterator[TaggedText]:
    """Yield the sentences of a file. Each text is its words joined by single spaces.

    If the first sentences are Chinese, Japanese or Korean with one character per line, characters
    are joined directly. A space appears only where the file has a line for it, or between two Latin
    words.

    Tabs separate columns. In a line without tabs, spaces do. The file's first entity determines the
    tagging scheme of the whole file. CoNLL-U comments are skipped: lines before a sentence that
    begin with ``#`` and a space. A line with the columns of a row is not a comment.

    Args:
        path: the file; ``-`` is stdin.
        word: number of the word column, from 1; the first by default.
        tag: number of the tag column; the last by default.
        labelled: whether to read tags.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file. During iteration for a line with too few or too
            many columns, and for a tag that is malformed or cannot follow the previous tag. If the
            first column numbers words, also for lines that do not number a single word.
    """
    return read_files(
        [path],
        partial(_read, word=word, tag=tag, labelled=labelled, encoding=encoding),
        "sentences",
    )


def _read(
    path: Path, word: str | None, tag: str | None, labelled: bool, encoding: str
) -> Iterator[TaggedText]:
    source = source_name(path)
    tags = _Tags(source)
    sentences = _sentences(read_lines(path, encoding=encoding), source)
    # A stream allows only a limited lookahead; a few sentences are enough.
    heads = list(islice(sentences, _NUM_INSPECTED))
    numbered = _are_numbered(heads)
    if numbered and word is None:
        needed = "columns of the words and the tags, such as --text 2 --label 3"
        raise UserError(
            f"{source}: column 1 numbers the words of a sentence, as in CoNLL-U; give the "
            f"{needed if labelled else 'column of the words, such as --text 2'}"
        )
    inspected = [name for first, rows in heads for name in _words(rows, word, source, first)]
    join = join_characters if _are_characters(inspected) else join_words
    for first, rows in chain(heads, sentences):
        width = len(rows[0])
        if numbered:
            _check_numbers(rows, source, first)
        if labelled and width < 2:
            raise UserError(f"{source}, line {first}: 1 column, expected a word and its tag")
        text, spans = join(_words(rows, word, source, first))
        entities = None
        if labelled:
            column = find_field(tag or str(width), source, None, width).index
            entities = tuple(
                Entity(spans[start][0], spans[end - 1][1], label)
                for start, end, label in tags.entities([row[column].strip() for row in rows], first)
            )
        yield TaggedText(text=text, words=spans, entities=entities, source=source, line=first)
    tags.finish()


def _are_numbered(sentences: Sequence[tuple[int, _Rows]]) -> bool:
    """Return whether the first of several columns numbers the words of each sentence from 1."""
    numbers = [
        [row[0] for row in rows if not _NOT_SINGLE_WORD.fullmatch(row[0])] for _, rows in sentences
    ]
    has_columns = bool(sentences) and all(len(rows[0]) > 2 for _, rows in sentences)
    return has_columns and all(
        sentence == [str(n + 1) for n in range(len(sentence))] for sentence in numbers
    )


def _check_numbers(rows: _Rows, source: str, first: int) -> None:
    """Refuse CoNLL-U lines that are not single words.

    These are ``3-4``, a multiword token, and ``4.1``, an empty node.

    Raises:
        UserError: there is such a line. The message names the first.
    """
    for line, row in enumerate(rows, start=first):
        if _NOT_SINGLE_WORD.fullmatch(row[0]):
            raise UserError(
                f"{source}, line {line}: {row[0]} is not the number of a single word "
                "(CoNLL-U); delete lines whose number has a hyphen or a point"
            )


def _words(rows: _Rows, word: str | None, source: str, first: int) -> list[str]:
    """Return the words of a sentence, whose first line is ``first``."""
    column = find_field(word or "1", source, None, len(rows[0])).index
    # Columns may be padded with spaces. A column of only spaces stays, as a word to skip.
    words = [row[column].strip(" ") or row[column] for row in rows]
    if "" in words:
        raise UserError(f"{source}, line {first + words.index('')}: empty word")
    return words


def _are_characters(words: Sequence[str]) -> bool:
    """Return whether nearly all words are single characters, and half of them East Asian."""
    single = [word for word in words if len(word) == 1]
    east_asian = sum(_EAST_ASIAN.fullmatch(word) is not None for word in single)
    return len(single) >= _MIN_SINGLE_SHARE * len(words) and east_asian >= len(words) / 2


def join_characters(words: Sequence[str]) -> tuple[str, tuple[Word, ...]]:
    """Join characters without spaces, and return the span of each; see `read_conll`."""
    parts, spans = [], []
    end, previous = 0, ""
    for word in words:
        multi_character = max(len(previous), len(word)) > 1
        if multi_character and _LATIN.search(previous[-1:]) and _LATIN.match(word):
            parts.append(" ")
            end += 1
        parts.append(word)
        spans.append((end, end + len(word)))
        end, previous = end + len(word), word
    return "".join(parts), tuple(spans)


def join_words(words: Sequence[str]) -> tuple[str, tuple[Word, ...]]:
    """Join words with single spaces, and return the span of each."""
    spans: list[Word] = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def _sentences(lines: Iterator[str], source: str) -> Iterator[tuple[int, _Rows]]:
    """Yield the first line number and the rows of each sentence."""
    rows: _Rows = []
    lines, lookahead = tee(lines)
    shown_by, width = next(
        (
            (number, len(row))
            for number, line in enumerate(lookahead, start=1)
            if (row := _columns(without_line_end(line)))
            and row[0] != DOCUMENT
            and not line.startswith(_COMMENT)
        ),
        (0, 0),
    )
    del lookahead  # otherwise tee would keep all lines in memory
    for number, line in enumerate(chain(lines, [""]), start=1):
        row = _columns(without_line_end(line))
        if not row or (row[0] == DOCUMENT and not (rows and _is_word(row, width))):
            if rows:
                yield number - len(rows), rows
            rows = []
            continue
        if not rows and line.startswith(_COMMENT) and (len(row) != width or _KEY.match(line)):
            continue
        if len(row) != width:
            raise UserError(
                f"{source}, line {number}: {len(row)} column{'s' if len(row) > 1 else ''}, "
                f"expected {width} as in line {shown_by}"
            )
        rows.append(row)
        if len(rows) > MAX_WORDS:
            raise UserError(
                f"{source}, line {number}: more than {MAX_WORDS:,} words without a blank line, "
                "which must separate sentences"
            )


def _columns(line: str) -> list[str]:
    if not line or line.isspace():
        return []
    # Only a plain space separates columns. `str.split` also splits at others, such as a no-break
    # space.
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


class _Tags:
    """Parses the tags of a file, all in the scheme of its first entity.

    In IOBES an entity may continue in the next sentence, because blank lines may be misplaced. Each
    part is then an entity of its own.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._scheme: Scheme | None = None
        self._shown_by = 0
        self._open: tuple[Tag, UserError] | None = None
        """The last tag of a sentence that ends inside an entity, and the error to raise unless the
        next sentence continues the entity."""

    def entities(self, texts: Sequence[str], first: int) -> list[Entity]:
        """Return the entities of a sentence, in word indices; ``first`` is its first line."""
        tags = [self._parsed(text, line) for line, text in enumerate(texts, start=first)]
        if self._scheme is None:
            self._scheme = scheme_of(tags)
            if self._scheme is None:
                return []
            self._shown_by = next(i for i, tag in enumerate(tags, start=first) if tag != OUTSIDE)
        prefix = []
        if self._open is not None:
            if tags[0].prefix not in "IE" or tags[0].type != self._open[0].type:
                raise self._open[1]
            prefix = [Tag("B", tags[0].type)]
            self._open = None
        fault = first_invalid([*prefix, *tags], self._scheme)
        if fault == len(prefix) + len(tags) and self._scheme == "IOBES":
            self._open = tags[-1], self._error(texts, len(tags), first)
        elif fault is not None:
            raise self._error(texts, fault - len(prefix), first)
        return entities_of(tags)

    def finish(self) -> None:
        """Refuse an unfinished entity at the end of the file."""
        if self._open is not None:
            raise self._open[1]

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
            f"{self._source}, line {line}: tag {what} in {self._scheme}, the scheme of line "
            f"{self._shown_by}"
        )


def _is_word(row: Sequence[str], width: int) -> bool:
    """Return whether a row inside a sentence is a word although it looks like a document's start.

    Such a word is in the answers for a text of CoNLL files that was read as plain text.
    """
    return len(row) == width and _NO_TAG not in row
