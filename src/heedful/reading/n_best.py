"""Read n-best lists of a speech recogniser or translator: ``{"hypotheses": [...]}`` per line."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import get_list, read_objects, unit_of
from heedful.reading.lines import UTF8, read_files, source_name

KEY = "hypotheses"


@dataclass(frozen=True, kw_only=True, slots=True)
class NBestEntry:
    """One hypothesis of an n-best list."""

    text: str
    score: float
    """Log-probability from the system that produced the hypothesis; 0 if it has none."""
    where: str
    """File, line and number, for messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NBestList:
    """The hypotheses of one item, and the other content of its line."""

    entries: tuple[NBestEntry, ...]
    """At least one hypothesis."""
    others: Mapping[str, object]
    """The other keys of the line, such as an id."""


def read_n_best(path: Path, encoding: str = UTF8) -> Iterator[NBestList]:
    """Yield the n-best lists of a JSON Lines file.

    A hypothesis is a text, or an object with ``text`` and an optional ``score``.

    Args:
        path: the file; ``-`` is stdin.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file; during iteration, with the line, for a line
            without hypotheses, an empty text or a score that is not a number.
    """
    return read_files([path], partial(_read, encoding=encoding), "lists")


def _read(path: Path, encoding: str) -> Iterator[NBestList]:
    for number, record in read_objects(path, encoding):
        where = f"{source_name(path)}, {unit_of(path)} {number}"
        items = get_list(record, KEY, where)
        if not items:
            raise UserError(f"{where}: {KEY!r}: expected at least one, found an empty list")
        yield NBestList(
            entries=tuple(
                _entry(item, f"{where}, hypothesis {count}")
                for count, item in enumerate(items, start=1)
            ),
            others={key: value for key, value in record.items() if key != KEY},
        )


def _entry(item: object, where: str) -> NBestEntry:
    text, score = item, 0.0
    if isinstance(item, Mapping):
        text, score = item.get("text"), item.get("score", 0.0)
    if not isinstance(text, str):
        raise UserError(f"{where}: expected a text, or an object with one, found {kind_of(item)}")
    if not text.strip():
        raise UserError(f"{where}: the text is empty")
    try:
        log_probability = math.nan if isinstance(score, bool | str) else float(score)
    except (TypeError, OverflowError):
        log_probability = math.nan
    if not math.isfinite(log_probability):
        raise UserError(f"{where}: the score must be a number, found {kind_of(score)}")
    return NBestEntry(text=text, score=log_probability, where=where)
