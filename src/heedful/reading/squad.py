"""Read extractive question answering data: questions, contexts, and answers as spans.

SQuAD's JSON (Rajpurkar et al. 2016; 2018 for questions without an answer), or an array of rows, is
one document and is read into memory. JSON Lines are streamed. Questions without answers can also be
read from tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError, count_of
from heedful.reading.compressed import extension_of
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import (
    get_int,
    get_list,
    get_objects,
    get_text,
    get_value,
    read_objects,
    unit_of,
)
from heedful.reading.lines import STDIN, UTF8, read_files, source_name
from heedful.reading.records import read_records
from heedful.settings import ColumnSettings

_TABLES = (".csv", ".tsv")
_ROWS = (".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldAnswer:
    """A ground-truth answer."""

    text: str
    start: int | None
    """In characters: ``context[start : start + len(text)]`` is ``text``. None if the answer is not
    at its stated offset."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a context, both as the user wrote them."""

    question: str
    context: str
    answers: tuple[GoldAnswer, ...] | None
    """Empty for a question that the context does not answer; None if answers were not read."""
    where: str
    """File and line or paragraph, for messages."""
    misplaced: tuple[str, ...] = ()
    """A message for each answer that is not at its stated offset."""


def read_questions(
    paths: Sequence[Path], *, labelled: bool = True, encoding: str = UTF8
) -> Iterator[Question]:
    """Read questions from files, one at a time.

    Args:
        paths: SQuAD 1.1 or 2.0 (``.json``), or rows with ``question``, ``context`` and ``answers``,
            a list of ``{"text", "start"}`` (``.jsonl``; also ``-``, stdin), each possibly
            compressed, or ``.parquet``. Without answers, also ``.csv`` and ``.tsv``.
        labelled: whether to read answers. If false, answers may be missing.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a file that is missing or of unknown format; during iteration for
            an error inside a file, with its line or paragraph and the question's id.
    """
    for path in paths:
        _check_ending(path, labelled=labelled)
    seen: dict[str, str] = {}
    return read_files(paths, lambda path: _questions(path, seen, labelled, encoding), "questions")


def check_texts(question: str, context: str, where: str) -> None:
    """Refuse a question that cannot be answered.

    Raises:
        UserError: the question or the context is empty.
    """
    for name, text in (("question", question), ("context", context)):
        if not text.strip():
            raise UserError(f"{where}: empty {name}")


def _check_ending(path: Path, *, labelled: bool) -> None:
    known = (".json", *_ROWS) if labelled else (".json", *_ROWS, *_TABLES)
    if path != STDIN and extension_of(path) not in known:
        what = "questions with answers" if labelled else "questions"
        raise UserError(
            f"{path}: {what} are read from {', '.join(known)}, not {extension_of(path)!r}"
        )


_Item = tuple[str, str, Mapping[str, object]]
"""Location of a question, its context, and its JSON object."""


def _questions(
    path: Path, seen: dict[str, str], labelled: bool, encoding: str
) -> Iterator[Question]:
    """Yield the questions of a file; ``seen`` maps each id to its first location."""
    for where, context, item in _items(path, encoding):
        name = _id(item, where)
        named = where if name is None else f"{where}, question {name!r}"
        if name in seen and labelled:
            raise UserError(f"{named}: this id is used twice, first in {seen[name]}")
        if name is not None:
            seen[name] = where
        question = get_text(item, "question", named)
        check_texts(question, context, named)
        misplaced: list[str] = []
        answers = _answers(context, item, named, misplaced) if labelled else None
        yield Question(
            question=question,
            context=context,
            answers=answers,
            where=named,
            misplaced=tuple(misplaced),
        )


def _items(path: Path, encoding: str) -> Iterator[_Item]:
    ending = extension_of(path)
    if ending in _TABLES:
        return _table_items(path, encoding)
    return (_document_items if ending == ".json" else _row_items)(path, encoding)


def _document_items(path: Path, encoding: str) -> Iterator[_Item]:
    source = source_name(path)
    for number, article in read_objects(path, encoding):
        if article.keys() & {"context", "question"}:  # a row, as in JSON lines
            where = f"{source}, row {number}"
            yield where, get_text(article, "context", where), article
            continue
        article_where = f"{source}, article {number}"
        for count, paragraph in enumerate(get_objects(article, "paragraphs", article_where), 1):
            where = f"{article_where}, paragraph {count}"
            context = get_text(paragraph, "context", where)
            for item in get_objects(paragraph, "qas", where):
                yield where, context, item


def _row_items(path: Path, encoding: str) -> Iterator[_Item]:
    for number, item in read_objects(path, encoding):
        where = f"{source_name(path)}, {unit_of(path)} {number}"
        yield where, get_text(item, "context", where), item


def _table_items(path: Path, encoding: str) -> Iterator[_Item]:
    columns = ColumnSettings(text="question", text_pair="context", label=None, encoding=encoding)
    for record in read_records([path], columns, allow_empty=True):
        assert record.text_pair is not None
        yield record.where, record.text_pair, {"question": record.text}


def _answers(
    context: str, item: Mapping[str, object], where: str, misplaced: list[str]
) -> tuple[GoldAnswer, ...]:
    columns = get_value(item, "answers", where)
    objects = (
        _rows_of(columns, where)
        if isinstance(columns, dict)
        else get_objects(item, "answers", where)
    )
    answers = tuple(_answer(context, answer, where, misplaced) for answer in objects)
    impossible = item.get("is_impossible")
    if impossible is not None and impossible != (not answers):
        raise UserError(
            f"{where}: 'is_impossible' is {impossible}, with {count_of(len(answers), 'answer')}"
        )
    return answers


def _rows_of(columns: object, where: str) -> list[Mapping[str, object]]:
    """Convert columns, which data libraries write for lists of objects, back to rows."""
    texts, starts = (get_list(columns, key, where) for key in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise UserError(
            f"{where}: {count_of(len(texts), 'text')} of answers, but "
            f"{count_of(len(starts), 'start')}"
        )
    return [{"text": text, "start": start} for text, start in zip(texts, starts, strict=True)]


def _answer(
    context: str, answer: Mapping[str, object], where: str, misplaced: list[str]
) -> GoldAnswer:
    text = get_text(answer, "text", where)
    start = get_int(answer, "answer_start" if "answer_start" in answer else "start", where)
    if not text.strip():
        raise UserError(f"{where}: empty answer; a question without one has an empty list")
    if start < 0 or not context.startswith(text, start):
        first = context.find(text)
        hint = "it does not occur there" if first < 0 else f"it occurs at {first}"
        misplaced.append(f"the answer {text!r} is not at {start} of the context; {hint}")
        return GoldAnswer(text=text, start=None)
    return GoldAnswer(text=text, start=start)


def _id(item: Mapping[str, object], where: str) -> str | None:
    name = item.get("id")
    if name is not None and not isinstance(name, str | int):
        raise UserError(f"{where}: 'id': expected text or a number, found {kind_of(name)}")
    return None if name is None else str(name)
