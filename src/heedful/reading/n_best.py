"""Read n-best lists of a speech recogniser or translator: ``{"hypotheses": [...]}`` per line."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from heedful.errors import UserError, did_you_mean
from heedful.reading.fields import kind_of
from heedful.reading.json_objects import get_list, read_objects, unit_of
from heedful.reading.lines import UTF8, read_files, source_name

KEY = "hypotheses"
_MISSPELT = 0.8
"""Similarity of a misspelt ``score``, such as ``Score`` or ``scores``, but not ``source``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NBestEntry:
    """One hypothesis of an n-best list."""

    text: str
    score: float | None
    """Log-probability from the system that produced the hypothesis, if its list has scores."""
    others: Mapping[str, object]
    """The other keys of the hypothesis."""
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

    A hypothesis is a text, or an object with ``text``, and ``score`` if all of its list have one.

    Args:
        path: the file; ``-`` is stdin.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file; during iteration, with the line, for a line
            without hypotheses, an empty text, or a score that is missing or not a number.
    """
    return read_files([path], partial(_read, encoding=encoding), "lists")


def _read(path: Path, encoding: str) -> Iterator[NBestList]:
    for number, record in read_objects(path, encoding):
        where = f"{source_name(path)}, {unit_of(path)} {number}"
        items = get_list(record, KEY, where)
        if not items:
            raise UserError(f"{where}: {KEY!r}: expected at least one, found an empty list")
        entries = tuple(
            _entry(item, f"{where}, hypothesis {count}")
            for count, item in enumerate(items, start=1)
        )
        _check_scores(entries)
        yield NBestList(
            entries=entries,
            others={key: value for key, value in record.items() if key != KEY},
        )


def _entry(item: object, where: str) -> NBestEntry:
    fields = dict(item) if isinstance(item, Mapping) else {"text": item}
    text = fields.pop("text", None)
    if not isinstance(text, str):
        raise UserError(f"{where}: expected a text, or an object with one, found {kind_of(item)}")
    if not text.strip():
        raise UserError(f"{where}: the text is empty")
    score = _score(fields.pop("score"), where) if "score" in fields else None
    return NBestEntry(text=text, score=score, others=fields, where=where)


def _score(value: Any, where: str) -> float:
    try:
        log_probability = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, OverflowError):
        log_probability = math.nan
    if not math.isfinite(log_probability):
        raise UserError(f"{where}: the score must be a number, found {kind_of(value)}")
    return log_probability


def _check_scores(entries: Sequence[NBestEntry]) -> None:
    """Refuse a list in which only some hypotheses have a score, and a misspelt ``score``."""
    has_scores = any(entry.score is not None for entry in entries)
    for entry in entries:
        near = did_you_mean("score", entry.others, cutoff=0.5 if has_scores else _MISSPELT)
        if entry.score is None and (has_scores or near):
            raise UserError(
                f"{entry.where}: no 'score'{near}; all hypotheses of a list have one, or none has"
            )
