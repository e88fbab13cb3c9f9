"""Read multiple-choice questions with one correct choice from JSON.

There are two formats. In one, ``question`` is a text, with ``choices`` and ``answer`` as sibling
keys. In the other, as in CommonsenseQA (Talmor et al. 2019), ``question`` is an object with
``stem`` and ``choices`` of ``label`` and ``text``, and ``answerKey`` is a sibling key. Data
libraries keep the latter as a text ``question`` beside ``choices``, an object of the two columns
``label`` and ``text``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heedful.errors import UserError, count_of, did_you_mean, join_names
from heedful.reading.compressed import extension_of
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import as_text, get_list, get_value, read_objects, unit_of
from heedful.reading.lines import UTF8, read_files, source_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """A question and its choices, as the user wrote them."""

    question: str
    choices: tuple[str, ...]
    """At least two choices."""
    answer: int | None
    """Index of the correct choice, from 0; None if it was not read."""
    where: str
    """File and line, for messages."""


def read_choices(
    paths: Sequence[Path], *, labelled: bool = True, encoding: str = UTF8
) -> Iterator[Choices]:
    """Read questions from JSON files, one at a time.

    Args:
        paths: files, possibly compressed; ``-`` is stdin.
        labelled: whether to read answers. If false, answers may be missing.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file or the file name of a text table; during iteration
            for an error inside a file, with its line or row.
    """
    for path in paths:
        if extension_of(path) in (".csv", ".tsv", ".txt"):
            ending = extension_of(path)
            raise UserError(f"{path}: questions are read from JSON or Parquet, not {ending!r}")
    return read_files(paths, partial(_read, labelled=labelled, encoding=encoding), "questions")


def _read(path: Path, labelled: bool, encoding: str) -> Iterator[Choices]:
    for number, item in read_objects(path, encoding):
        where = f"{source_name(path)}, {unit_of(path)} {number}"
        question = get_value(item, "question", where)
        if isinstance(question, Mapping):
            stem = _text(get_value(question, "stem", where), f"{where}: 'stem'")
            choices = get_list(question, "choices", where)
            yield _with_labels(item, stem, choices, where, labelled)
        elif isinstance(columns := item.get("choices"), Mapping):
            text = _text(question, f"{where}: 'question'")
            yield _with_labels(item, text, _rows_of(columns, where), where, labelled)
        else:
            yield _plain(item, question, where, labelled)


def _rows_of(columns: Mapping[str, object], where: str) -> list[object]:
    """Convert columns, which data libraries write for lists of objects, back to rows."""
    labels, texts = (get_list(columns, key, f"{where}: 'choices'") for key in ("label", "text"))
    if len(labels) != len(texts):
        raise UserError(
            f"{where}: 'choices' has {count_of(len(labels), 'label')}, but "
            f"{count_of(len(texts), 'text')}"
        )
    return [{"label": label, "text": text} for label, text in zip(labels, texts, strict=True)]


def _plain(item: Mapping[str, object], question: object, where: str, labelled: bool) -> Choices:
    texts = get_list(item, "choices", where)
    choices = [_text(text, f"{where}: choice {index}") for index, text in enumerate(texts)]
    checked = _checked(choices, where)
    answer = _answer(get_value(item, "answer", where), checked, where) if labelled else None
    return Choices(
        question=_text(question, f"{where}: 'question'"),
        choices=checked,
        answer=answer,
        where=where,
    )


def _answer(answer: object, choices: Sequence[str], where: str) -> int:
    """Return the index of the choice given by its index or its text."""
    if isinstance(answer, str):
        return _index(answer, choices, "answer", where)
    if not isinstance(answer, int) or isinstance(answer, bool):
        kind = kind_of(answer)
        raise UserError(f"{where}: 'answer': expected a number or a choice's text, found {kind}")
    if not 0 <= answer < len(choices):
        raise UserError(f"{where}: 'answer' is {answer}; the choices are 0 to {len(choices) - 1}")
    return answer


def _with_labels(
    item: Mapping[str, object], question: str, rows: list[object], where: str, labelled: bool
) -> Choices:
    labels: list[str] = []
    choices: list[str] = []
    for index, choice in enumerate(rows):
        choice_where = f"{where}, choice {index}"
        for key, texts in (("label", labels), ("text", choices)):
            text = get_value(choice, key, choice_where)
            texts.append(_text(text, f"{choice_where}: {key!r}"))
    answer = None
    if labelled:
        key = _text(get_value(item, "answerKey", where), f"{where}: 'answerKey'")
        answer = _index(key, labels, "answerKey", where)
    return Choices(
        question=question,
        choices=_checked(choices, where),
        answer=answer,
        where=where,
    )


def _text(value: object, where: str) -> str:
    text = as_text(value, where)
    if not text.strip():
        raise UserError(f"{where}: empty text")
    return text


def _checked(choices: Sequence[str], where: str) -> tuple[str, ...]:
    if len(choices) < 2:
        raise UserError(f"{where}: a question needs at least 2 choices; it has {len(choices)}")
    return tuple(choices)


def _index(name: str, names: Sequence[str], key: str, where: str) -> int:
    """Return the index of the choice with this name."""
    if names.count(name) > 1:
        raise UserError(f"{where}: {key} {name!r} matches {names.count(name)} choices")
    if name not in names:
        near = did_you_mean(name, names)
        raise UserError(
            f"{where}: {key} {name!r} is none of the choices{near}: {join_names(names)}"
        )
    return names.index(name)
