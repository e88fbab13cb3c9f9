"""Questions about texts, with their answers as slices of those texts.

SQuAD's JSON (Rajpurkar et al. 2016; 2018 for questions without an answer) is one document and is
held whole; JSON lines are streamed. Where answers are not needed, tables are read as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from heedful.errors import UserError, did_you_mean, listed
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import parse_json, read_objects
from heedful.reading.lines import STDIN, check_file, read_lines, source_name
from heedful.reading.records import read_records
from heedful.settings import ColumnSettings

MAX_DOCUMENT_BYTES = 2**30
"""The largest SQuAD document that is read; SQuAD itself has 42 MB."""

_TABLES = (".csv", ".tsv", ".parquet")
_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldAnswer:
    """A right answer: ``context[start : start + len(text)]`` is ``text``."""

    text: str
    start: int
    """In characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a context, as its user wrote both."""

    question: str
    context: str
    answers: tuple[GoldAnswer, ...] | None
    """Empty for a question that the context does not answer; None where none were read."""
    where: str
    """File and place in it, for messages."""


def read_questions(paths: Sequence[Path], *, labelled: bool = True) -> Iterator[Question]:
    """Read questions from files, one at a time.

    Args:
        paths: SQuAD 1.1 or 2.0 (``.json``), or rows with ``question``, ``context`` and ``answers``,
            a list of ``{"text", "start"}`` (``.jsonl``; also ``-``, stdin), each also with
            ``.gz``. Without answers also ``.csv``, ``.tsv`` and ``.parquet``.
        labelled: whether answers are read; without it they need not be there.

    Raises:
        UserError: at once for a file that is missing or of unknown format; during iteration for
            what is wrong inside a file, with its place and the question's id.
    """
    if not paths:
        raise UserError("no data file given")
    endings = [_ending(path, labelled=labelled) for path in paths]
    for path in paths:
        check_file(path)
    return _questions(paths, endings, labelled)


def check_texts(question: str, context: str, where: str) -> None:
    """Refuse what nobody could answer.

    Raises:
        UserError: the question or the context is empty.
    """
    for name, text in (("question", question), ("context", context)):
        if not text.strip():
            raise UserError(f"{where}: empty {name}")


def _ending(path: Path, *, labelled: bool) -> str:
    if path == STDIN:
        return ".jsonl"
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    ending = plain.suffix.lower()
    known = (".json", *_LINES) if labelled else (".json", *_LINES, *_TABLES)
    if ending not in known:
        what = "questions with answers" if labelled else "questions"
        raise UserError(f"{path}: {what} are read from {', '.join(known)}, not {ending!r}")
    return ending


_Item = tuple[str, str, Mapping[str, object]]
"""Where a question stands, its context, and the object that holds it."""


def _questions(paths: Sequence[Path], endings: Sequence[str], labelled: bool) -> Iterator[Question]:
    places: dict[str, str] = {}
    for path, ending in zip(paths, endings, strict=True):
        place = None
        for place, context, item in _items(path, ending):
            name = _id(item, place)
            where = place if name is None else f"{place}, question {name!r}"
            if name in places and labelled:
                raise UserError(f"{where}: this id stands twice, first in {places[name]}")
            if name is not None:
                places[name] = place
            question = _text(item, "question", where)
            check_texts(question, context, where)
            answers = _answers(context, item, where) if labelled else None
            yield Question(question=question, context=context, answers=answers, where=where)
        if place is None:
            raise UserError(f"{source_name(path)}: holds no questions")


def _items(path: Path, ending: str) -> Iterator[_Item]:
    if ending in _TABLES:
        return _table_items(path)
    return _document_items(path) if ending == ".json" else _row_items(path)


def _document_items(path: Path) -> Iterator[_Item]:
    source = source_name(path)
    text = "".join(read_lines(path, MAX_DOCUMENT_BYTES))
    articles = _objects(parse_json(text, source), "data", source)
    for number, article in enumerate(articles, start=1):
        at = f"{source}, article {number}"
        for count, paragraph in enumerate(_objects(article, "paragraphs", at), start=1):
            place = f"{at}, paragraph {count}"
            context = _text(paragraph, "context", place)
            for item in _objects(paragraph, "qas", place):
                yield place, context, item


def _row_items(path: Path) -> Iterator[_Item]:
    source = source_name(path)
    for number, item in read_objects(path):
        place = f"{source}, line {number}"
        yield place, _text(item, "context", place), item


def _table_items(path: Path) -> Iterator[_Item]:
    columns = ColumnSettings(text="question", text_pair="context", label=None)
    unit = "row" if path.suffix.lower() == ".parquet" else "line"
    for record in read_records([path], columns, allow_empty=True):
        assert record.text_pair is not None
        place = f"{record.source}, {unit} {record.line}"
        yield place, record.text_pair, {"question": record.text}


def _answers(context: str, item: Mapping[str, object], where: str) -> tuple[GoldAnswer, ...]:
    given = _value(item, "answers", where)
    objects = (
        _rows_of(given, where) if isinstance(given, dict) else _objects(item, "answers", where)
    )
    answers = tuple(_answer(context, answer, where) for answer in objects)
    if item.get("is_impossible", not answers) != (not answers):
        raise UserError(
            f"{where}: 'is_impossible' is {item['is_impossible']}, with {len(answers)} answers"
        )
    return answers


def _rows_of(answers: object, where: str) -> list[Mapping[str, object]]:
    """Turn columns, as data libraries write lists of objects, back into rows."""
    texts, starts = (_list(answers, key, where) for key in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise UserError(f"{where}: {len(texts)} texts of answers, but {len(starts)} starts")
    return [{"text": text, "start": start} for text, start in zip(texts, starts, strict=True)]


def _answer(context: str, answer: Mapping[str, object], where: str) -> GoldAnswer:
    text = _text(answer, "text", where)
    start = _value(answer, "answer_start" if "answer_start" in answer else "start", where)
    if not isinstance(start, int) or isinstance(start, bool):
        raise UserError(f"{where}: an answer must start at a number, found {kind_of(start)}")
    if not text.strip():
        raise UserError(f"{where}: empty answer; a question without one has an empty list")
    if start < 0 or not context.startswith(text, start):
        found = context.find(text)
        hint = "it stands nowhere in it" if found < 0 else f"it stands at {found}"
        raise UserError(f"{where}: the answer {text!r} is not at {start} of the context; {hint}")
    return GoldAnswer(text=text, start=start)


# Values of JSON objects.


def _value(item: object, key: str, where: str) -> object:
    if not isinstance(item, Mapping):
        raise UserError(f"{where}: expected an object with {key!r}, found {kind_of(item)}")
    if key not in item:
        keys = listed([repr(name) for name in item]) or "none"
        raise UserError(f"{where}: no {key!r}{did_you_mean(key, item)}; its keys: {keys}")
    return item[key]


def _list(item: object, key: str, where: str) -> list[object]:
    value = _value(item, key, where)
    if not isinstance(value, list):
        raise UserError(f"{where}: {key!r} must be a list, found {kind_of(value)}")
    return value


def _objects(item: object, key: str, where: str) -> list[Mapping[str, object]]:
    values = _list(item, key, where)
    for value in values:
        if not isinstance(value, dict):
            raise UserError(f"{where}: {key!r} must hold objects, found {kind_of(value)}")
    return cast("list[Mapping[str, object]]", values)


def _text(item: object, key: str, where: str) -> str:
    value = _value(item, key, where)
    if not isinstance(value, str):
        raise UserError(f"{where}: {key!r} must be text, found {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(value[error.start]):04x}"
        raise UserError(
            f"{where}: {key!r} holds half of a surrogate pair ({code}), which is not a character"
        ) from None
    return value


def _id(item: Mapping[str, object], where: str) -> str | None:
    name = item.get("id")
    if name is not None and not isinstance(name, str | int):
        raise UserError(f"{where}: 'id' must be text or a number, found {kind_of(name)}")
    return None if name is None else str(name)
