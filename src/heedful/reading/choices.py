"""Questions with several choices, one of them right, from JSON lines.

Two layouts are read, told apart by what ``question`` is: a text, with ``choices`` and ``answer``
beside it; or, as in CommonsenseQA (Talmor et al. 2019), an object with ``stem`` and ``choices`` of
``label`` and ``text``, and ``answerKey`` beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError, did_you_mean, listed
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import read_objects
from heedful.reading.lines import check_file, source_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """A question and what can answer it, as its user wrote them."""

    question: str
    choices: tuple[str, ...]
    """At least two."""
    answer: int | None
    """The number of the right choice, from 0; None where it was not read."""
    where: str
    """File and line, for messages."""


def read_choices(paths: Sequence[Path], *, labelled: bool = True) -> Iterator[Choices]:
    """Read questions from files of JSON lines, one at a time.

    Args:
        paths: files, also with ``.gz``; ``-`` is stdin.
        labelled: whether answers are read; without it they need not be there.

    Raises:
        UserError: at once for a file that is missing; during iteration for what is wrong inside a
            file, with its line.
    """
    if not paths:
        raise UserError("no data file given")
    for path in paths:
        check_file(path)
    return (record for path in paths for record in _read(path, labelled))


def _read(path: Path, labelled: bool) -> Iterator[Choices]:
    number = 0
    for number, item in read_objects(path):
        where = f"{source_name(path)}, line {number}"
        question = _get(item, "question", where)
        if isinstance(question, Mapping):
            yield _with_labels(item, question, where, labelled)
        else:
            yield _plain(item, question, where, labelled)
    if not number:
        raise UserError(f"{source_name(path)}: holds no questions")


def _plain(item: Mapping[str, object], question: object, where: str, labelled: bool) -> Choices:
    given = _list(_get(item, "choices", where), where)
    choices = [_text(choice, f"choice {number}", where) for number, choice in enumerate(given)]
    checked = _checked(choices, where)
    answer = _answer(_get(item, "answer", where), checked, where) if labelled else None
    return Choices(
        question=_text(question, "'question'", where),
        choices=checked,
        answer=answer,
        where=where,
    )


def _answer(given: object, choices: Sequence[str], where: str) -> int:
    """Return the number of the choice that a number or a text stands for."""
    if isinstance(given, str):
        return _place(given, choices, "answer", where)
    if not isinstance(given, int) or isinstance(given, bool):
        found = kind_of(given)
        raise UserError(f"{where}: 'answer': expected a number or a choice's text, found {found}")
    if not 0 <= given < len(choices):
        raise UserError(f"{where}: 'answer' is {given}; the choices are 0 to {len(choices) - 1}")
    return given


def _with_labels(
    item: Mapping[str, object], question: Mapping[str, object], where: str, labelled: bool
) -> Choices:
    labels: list[str] = []
    choices: list[str] = []
    for number, choice in enumerate(_list(_get(question, "choices", where), where)):
        name = f"choice {number}"
        if not isinstance(choice, Mapping):
            raise UserError(f"{where}: {name}: expected an object, found {kind_of(choice)}")
        labels.append(_text(_get(choice, "label", f"{where}, {name}"), f"{name}, 'label'", where))
        choices.append(_text(_get(choice, "text", f"{where}, {name}"), f"{name}, 'text'", where))
    answer = None
    if labelled:
        key = _text(_get(item, "answerKey", where), "'answerKey'", where)
        answer = _place(key, labels, "answerKey", where)
    return Choices(
        question=_text(_get(question, "stem", where), "'stem'", where),
        choices=_checked(choices, where),
        answer=answer,
        where=where,
    )


def _get(item: Mapping[str, object], key: str, where: str) -> object:
    if key not in item:
        near = did_you_mean(key, item)
        raise UserError(f"{where}: no {key!r}{near}; there is {listed(item) or 'nothing'}")
    return item[key]


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: {name}: expected text, found {kind_of(value)}")
    if not value.strip():
        raise UserError(f"{where}: {name}: empty text")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise UserError(f"{where}: 'choices': expected a list, found {kind_of(value)}")
    return value


def _checked(choices: Sequence[str], where: str) -> tuple[str, ...]:
    if len(choices) < 2:
        raise UserError(f"{where}: at least 2 choices are needed; there is {len(choices)}")
    return tuple(choices)


def _place(given: str, among: Sequence[str], key: str, where: str) -> int:
    """Return the number of the one that was given."""
    if among.count(given) > 1:
        raise UserError(f"{where}: {key} {given!r} stands for {among.count(given)} choices")
    if given not in among:
        near = did_you_mean(given, among)
        raise UserError(f"{where}: {key} {given!r} is none of the choices{near}: {listed(among)}")
    return among.index(given)
